// GpuNode: the memory by which the ranks of one node run calls on their GPUs together: each rank has a segment that
// all map, in its GPU's memory or, where GPUs do not reach each other, in the host's.
//
//   boards [local rank] | windows [channel][half] | inboxes [inbox][half]
//
// The inboxes lie in a segment of host memory of their own where the network cannot write to the GPU.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bootstrap/local_exchange.hpp"
#include "collectives/exec/gpu/gpu_runtime.hpp"
#include "collectives/exec/node_addresses.hpp"
#include "collectives/exec/node_group.hpp"
#include "device/shared_memory.hpp"

namespace twohop {

/// Where the memory lies; the same on all ranks of a node.
struct GpuPlacement {
  bool windows_on_gpu = true;  // else in host memory that all GPUs of the node reach over PCIe
  bool inboxes_on_gpu = true;
};

class GpuNode {
 public:
  /// Makes this rank's segments and maps the others'. Every rank of the node calls it at the same time. Nothing here is
  /// remembered where it fails: the node may try again with another placement.
  static Result<std::unique_ptr<GpuNode>> create(GpuRuntime& runtime, int device, const NodeMembers& members,
                                                 const WindowMap& map, const GpuPlacement& placement,
                                                 LocalExchange& exchange, const Secret& secret, Deadline deadline);

  /// What create() makes of a rank's windows, on the GPU or the host, with its inboxes where they lie in the same
  /// place.
  static size_t segment_bytes(const WindowMap& map, const GpuPlacement& placement, size_t locals, size_t inboxes);

  int me() const { return addresses_.me; }
  int size() const { return static_cast<int>(boards_.size()); }
  const NodeAddresses& addresses() const { return addresses_; }
  const GpuPlacement& placement() const { return placement_; }
  /// [local]: the board of `local` in my memory; my board in the memory of `local`.
  const std::vector<std::byte*>& boards() const { return boards_; }
  const std::vector<std::byte*>& boards_of_me() const { return boards_of_me_; }
  /// This rank's segment; and its inboxes, wherever they are.
  std::span<std::byte> own_segment() const;
  std::span<std::byte> own_inboxes() const;

 private:
  /// One rank's: of either kind, whichever it is.
  struct Segment {
    std::unique_ptr<GpuMemory> gpu;
    SharedMemory host;
    std::shared_ptr<void> pinned;  // goes before the mapping
    std::byte* data() const { return bytes().data(); }
    std::span<std::byte> bytes() const { return gpu ? std::span(gpu->data(), gpu->size()) : host.bytes(); }
  };
  struct Member {
    Segment windows, inboxes;
  };
  struct Maker;

  void fill_in(const WindowMap& map, const NodeMembers& members, int me);

  GpuPlacement placement_;
  std::vector<Member> members_;
  NodeAddresses addresses_;
  std::vector<std::byte*> boards_, boards_of_me_;
  size_t inboxes_ = 0;
};

}  // namespace twohop
