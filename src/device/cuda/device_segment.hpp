// Memory of one GPU that all ranks of a node map: made by one, handed to the others as file descriptors.
//
// Where the driver and the GPU can, memory is made by cuMemCreate and exported as a POSIX file descriptor: that works
// between processes that see different GPUs, and across containers that share a Unix socket. Elsewhere it is made by
// cuMemAlloc and exported as a CUDA IPC handle, which needs the same pid namespace and the GPU visible on both sides.
//
// Memory behind a descriptor lives as long as anybody maps it. Behind an IPC handle it must not be freed while others
// still do: with the handle they get the end of a pipe, which they close after their mapping, and which closes by
// itself where they die. The memory of a segment that goes before that is freed by the next one that is made, shared or
// mapped, or by the end of another of the kind.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "base/result.hpp"
#include "base/socket.hpp"
#include "device/cuda/cuda_driver.hpp"

namespace twohop {

enum class SegmentKind : uint32_t { kFileDescriptor, kIpcHandle };
const char* segment_kind_name(SegmentKind kind);

/// Move-only. A segment is mapped once in a process, however many DeviceSegments hold it, for all GPUs that use it; the
/// memory goes when the last process has dropped it. Every function is called with a context of `device` current
/// (cudaSetDevice).
class DeviceSegment {
 public:
  struct Mapping;

  DeviceSegment() = default;
  /// Zero-filled on return, by way of `stream`, which has no work that could wait for other ranks; `bytes` is rounded
  /// up to the driver's granularity.
  static Result<DeviceSegment> create(const CudaDriver& driver, int device, size_t bytes, CUstream stream);
  /// Of memory that is there already, the whole allocation in which `address` lies: another hold on a segment of this
  /// process, or memory of cudaMalloc, which stays the caller's.
  static Result<DeviceSegment> share(const CudaDriver& driver, const void* address);
  /// What the other ranks need to map it: a ticket (a small sealed memfd), then the memory itself (kFileDescriptor) or
  /// what they hold while they map it (kIpcHandle).
  Result<std::vector<Fd>> export_fds() const;
  /// Maps what another rank has exported, for use by `device`; takes the fds. An error when it holds less than `bytes`.
  static Result<DeviceSegment> map(const CudaDriver& driver, int device, std::vector<Fd> fds, size_t bytes);

  std::byte* data() const;
  size_t size() const;
  SegmentKind kind() const;

 private:
  std::shared_ptr<Mapping> mapping_;
};

}  // namespace twohop
