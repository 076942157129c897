// SideStream: where copies run beside kernels.
#pragma once

#include <cuda_runtime_api.h>

#include <utility>

#include "base/result.hpp"
#include "device/cuda/cuda_error.hpp"

namespace twohop {

/// A stream that waits for nobody, the default stream included.
class SideStream {
 public:
  static Result<SideStream> create() {
    SideStream s;
    if (cudaError_t e = cudaStreamCreateWithFlags(&s.stream_, cudaStreamNonBlocking); e != cudaSuccess)
      return cuda_error(e, "cannot create a stream");
    return Result<SideStream>(std::move(s));
  }
  SideStream(SideStream&& other) noexcept : stream_(std::exchange(other.stream_, nullptr)) {}
  SideStream& operator=(SideStream&&) = delete;
  ~SideStream() { end(); }
  /// Before its life does, where that is not on its GPU.
  void end() {
    if (stream_) (void)cudaStreamDestroy(std::exchange(stream_, nullptr));
  }
  cudaStream_t get() const { return stream_; }
  Result<> wait() const {
    if (cudaError_t e = cudaStreamSynchronize(stream_); e != cudaSuccess)
      return cuda_error(e, "a copy between GPU and host memory failed");
    return {};
  }

 private:
  SideStream() = default;
  cudaStream_t stream_ = nullptr;
};

}  // namespace twohop
