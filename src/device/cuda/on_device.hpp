// OnDevice: the guard that every CUDA call of ours on a GPU stands in. Which thread calls, and which GPU it has chosen
// or whether it has chosen any, makes no difference then, and none is left behind.
#pragma once

#include "device/cuda/cuda_driver.hpp"

namespace twohop {

/// Makes a GPU the thread's, and allows what capturing would refuse: other threads and other streams are not concerned
/// by what we do. Both as before at the end.
///
/// By the stack of contexts, not by cudaSetDevice: a thread that never chose a GPU has no context, and setting "its"
/// GPU back would give it, and the process, one on GPU 0. Nor is it enough to ask whether the GPU is the thread's
/// already: the runtime says 0 of such a thread, and the driver's functions then find no context.
class OnDevice {
 public:
  explicit OnDevice(int device);
  OnDevice(const CudaDriver& driver, int device);
  ~OnDevice();
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

 private:
  void begin(const CudaDriver& driver, int device);

  const CudaDriver* driver_ = nullptr;  // null where nothing was done
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
};

}  // namespace twohop
