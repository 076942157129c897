// See on_device.hpp.
#include "device/cuda/on_device.hpp"

#include <map>
#include <mutex>
#include <utility>

#include "base/log.hpp"

namespace twohop {
namespace {

/// Retained once and for the life of the process: to retain may wait for others that use the GPU, and the guard stands
/// where kernels wait for this thread.
Result<CUcontext> primary_context(const CudaDriver& driver, int device) {
  static std::mutex& mutex = *new std::mutex;
  static auto& all = *new std::map<std::pair<const CudaDriver*, int>, CUcontext>;
  const std::lock_guard lock(mutex);
  CUcontext& context = all[{&driver, device}];
  if (context) return context;
  if (CUresult r = driver.primary_ctx_retain(&context, device); r != CUDA_SUCCESS)
    return driver_error(r, "cannot use GPU {}", device);
  return context;
}

}  // namespace

OnDevice::OnDevice(int device) {
  if (auto driver = cuda_driver()) begin(**driver, device);
}
OnDevice::OnDevice(const CudaDriver& driver, int device) {
  begin(driver, device);
}

void OnDevice::begin(const CudaDriver& driver, int device) {
  auto context = primary_context(driver, device);
  CUresult pushed = CUDA_SUCCESS;
  if (context) pushed = driver.ctx_push_current(*context);
  if (!context || pushed != CUDA_SUCCESS) {  // after cudaDeviceReset, say: what follows fails by itself
    log_warn("GPU {} cannot be made this thread's: {}", device,
             context ? driver_error_text(pushed) : context.error().message);
    return;
  }
  driver_ = &driver;
  (void)driver.thread_exchange_capture_mode(&mode_);
}

OnDevice::~OnDevice() {
  if (!driver_) return;
  (void)driver_->thread_exchange_capture_mode(&mode_);
  CUcontext ours = nullptr;
  (void)driver_->ctx_pop_current(&ours);
}

}  // namespace twohop
