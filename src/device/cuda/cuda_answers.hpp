// What cuda_device.cpp makes of what CUDA says: apart from it, for a driver that is played.
#pragma once

#include <cuda_runtime_api.h>

#include "device/cuda/cuda_driver.hpp"
#include "device/cuda_device.hpp"

namespace twohop {

/// Of cudaGetDeviceCount's answer and cudaDriverGetVersion's, which is 0 where there is no driver.
CudaStatus cuda_status_of(cudaError_t error, int devices, int driver_version);

/// Makes no context: asks under one that is there, and where none of the `devices` has one, no memory is CUDA's.
Result<MemoryInfo> memory_info(const CudaDriver& driver, int devices, const void* address);

}  // namespace twohop
