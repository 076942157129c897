// Memory of one GPU that all ranks of a node map: made by one, handed to the others as file descriptors.
//
// Where the driver and the GPU can, memory is made by cuMemCreate and exported as a POSIX file descriptor: that works
// between processes that see different GPUs, and across containers that share a Unix socket. Elsewhere it is made by
// cuMemAlloc and exported as a CUDA IPC handle, which needs the same pid namespace and the GPU visible on both sides.
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

/// Move-only. A segment is mapped once in a process, however many DeviceSegments hold it; the memory goes when the last
/// process has dropped it. Every function is called with a context of `device` current (cudaSetDevice).
class DeviceSegment {
 public:
  struct Mapping;

  DeviceSegment() = default;
  /// Zero-filled; `bytes` is rounded up to the driver's granularity.
  static Result<DeviceSegment> create(const CudaDriver& driver, int device, size_t bytes);
  /// What the other ranks need to map it: a ticket (a small sealed memfd), and with kFileDescriptor the memory itself.
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
