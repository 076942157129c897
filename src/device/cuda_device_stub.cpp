// cuda_device.hpp where the library is built without CUDA: there are no GPUs, and all memory is the host's.
#include "device/cuda_device.hpp"

namespace twohop {

const CudaStatus& cuda_status() {
  static const CudaStatus status{.built = false, .devices = 0, .why = "twohop was built without CUDA"};
  return status;
}

Result<MemoryInfo> memory_info(const void*) {
  return MemoryInfo{};
}

}  // namespace twohop
