// GpuRegions: the user's device memory that is registered, which the ranks of the node read where it lies. Registering
// is done by all ranks of the node together, since each maps what the others register.
//
// A region is a number that all ranks of the node give the same registration. Kernels find the memory of region g of a
// local rank in a table in GPU memory; which region holds a call's contribution, a rank says in its notice.
//
// Addresses are never trusted: a region is used while its allocation still has the number that CUDA gave it when it was
// registered (MemoryInfo::allocation_id).
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/handshake.hpp"
#include "bootstrap/local_exchange.hpp"
#include "collectives/exec/gpu/gpu_runtime.hpp"
#include "collectives/exec/node_meeting.hpp"
#include "collectives/exec/registrations.hpp"

namespace twohop {

/// How the ranks of a node come together after the init.
struct GpuMeetingPlace {
  NodeMembers members;
  Secret secret{};
  std::shared_ptr<LocalExchange> exchange;
  NodeMeeting::Ranks ranks;
};

class GpuRegions {
 public:
  /// Its numbers are greater than those of host memory.
  static constexpr uint64_t kBeforeFirst = uint64_t{1} << 63;

  /// `read_by_others`: there are other ranks on the node, and they reach this GPU; else registering is remembered and
  /// changes nothing.
  static Result<std::shared_ptr<GpuRegions>> create(GpuRuntime& runtime, int device, GpuMeetingPlace place,
                                                    bool read_by_others);

  /// Registers device memory of the communicator's GPU. `kept`: somebody sees to it that it is not freed. `idle`: no
  /// call is under way. A rank that cannot still takes part, so that all ranks of the node get an error.
  Result<uint64_t> add(std::span<std::byte> memory, bool kept, bool idle);
  /// Ends it on all ranks of the node; afterwards nobody maps the memory any more.
  Result<> remove(uint64_t number, bool idle);

  /// LoopCall::direct of a call that reads these bytes; 0 where they are not registered (any more).
  uint64_t find(const void* at, uint64_t bytes);
  /// Held by what may use the region of a direct word at any time: a graph. Such a region is not removed.
  std::shared_ptr<void> hold(uint64_t direct) const;
  std::byte* const* table() const { return table_ ? reinterpret_cast<std::byte* const*>(table_->data()) : nullptr; }

 private:
  enum Kind : uint8_t { kRegister, kDeregister };
  struct Region {
    uint64_t number = 0;  // of the registration; 0: free
    uint64_t allocation_id = 0;
    bool stale = false;
    std::unique_ptr<GpuMemory> own;
    std::vector<std::unique_ptr<GpuMemory>> others;
    std::shared_ptr<int> held;
  };

  GpuRegions(GpuRuntime& runtime, int device, GpuMeetingPlace place)
      : runtime_(runtime), device_(device), place_(std::move(place)), meeting_(place_.ranks) {}
  Result<> prepare(Region& region, std::span<std::byte> memory, bool kept, bool idle);
  Result<> swap(Region& region, size_t at);
  Result<> write_row(size_t at, const std::vector<std::byte*>& seen);
  Result<> agree(Kind kind, size_t at, const Result<>& mine);
  size_t first_free() const;

  GpuRuntime& runtime_;
  int device_;
  GpuMeetingPlace place_;
  NodeMeeting meeting_;
  Registrations registrations_{kBeforeFirst};
  std::vector<Region> regions_;
  std::unique_ptr<GpuMemory> table_;  // null where nobody reads it
};

}  // namespace twohop
