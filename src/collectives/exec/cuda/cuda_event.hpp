// CudaEvent: owns a CUDA event that marks moments of streams and takes no times.
#pragma once

#include <utility>

#include "device/cuda/cuda_error.hpp"

namespace twohop {

class CudaEvent {
 public:
  CudaEvent() = default;
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;
  ~CudaEvent() { end(); }
  Result<> create() {
    if (cudaError_t e = cudaEventCreateWithFlags(&event_, cudaEventDisableTiming); e != cudaSuccess)
      return cuda_error(e, "cannot create an event");
    return {};
  }
  /// Before its life does, where that is not on its GPU.
  void end() {
    if (event_) (void)cudaEventDestroy(std::exchange(event_, nullptr));
  }
  cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace twohop
