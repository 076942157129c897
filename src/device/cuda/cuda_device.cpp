// cuda_device.hpp by the CUDA runtime and, for what only the driver knows of an allocation, the driver, whose functions
// the runtime finds for us: nothing here links to it.
#include "device/cuda_device.hpp"

#include <cuda.h>

#include "device/cuda/cuda_driver.hpp"
#include "device/cuda/cuda_error.hpp"

namespace twohop {
namespace {

CudaStatus ask() {
  CudaStatus status;
  status.built = true;
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaSuccess) {
    status.devices = count;
    if (count == 0) status.why = "the CUDA driver lists no GPU; is CUDA_VISIBLE_DEVICES empty?";
    return status;
  }
  (void)cudaGetLastError();  // or the user's next check would see it
  status.why = fmt::format("{} ({})", cudaGetErrorString(error), cudaGetErrorName(error));
  return status;
}

MemoryKind kind_of(cudaMemoryType type) {
  switch (type) {
    case cudaMemoryTypeHost:
      return MemoryKind::kPinned;
    case cudaMemoryTypeDevice:
      return MemoryKind::kDevice;
    case cudaMemoryTypeManaged:
      return MemoryKind::kManaged;
    default:
      return MemoryKind::kHost;
  }
}

Result<> add_allocation(const void* address, MemoryInfo* info) {
  auto driver = cuda_driver();
  if (!driver) return driver.error();
  const auto at = reinterpret_cast<CUdeviceptr>(address);
  CUdeviceptr base = 0;
  size_t bytes = 0;
  unsigned long long id = 0;
  if (CUresult r = (*driver)->mem_get_address_range(&base, &bytes, at); r != CUDA_SUCCESS)
    return driver_error(r, "cannot find the allocation of device address {}", address);
  if (CUresult r = (*driver)->pointer_get_attribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, at); r != CUDA_SUCCESS)
    return driver_error(r, "cannot read the allocation id of device address {}", address);
  info->base = base;
  info->bytes = bytes;
  info->allocation_id = id;
  return {};
}

}  // namespace

const CudaStatus& cuda_status() {
  static const CudaStatus status = ask();
  return status;
}

Result<MemoryInfo> memory_info(const void* address) {
  MemoryInfo info;
  if (cuda_status().devices == 0) return info;
  cudaPointerAttributes attributes{};
  if (cudaError_t error = cudaPointerGetAttributes(&attributes, address); error != cudaSuccess) {
    (void)cudaGetLastError();
    return cuda_error(error, "cannot ask what kind of memory {} is", address);
  }
  info.kind = kind_of(attributes.type);
  if (info.kind == MemoryKind::kDevice || info.kind == MemoryKind::kManaged) info.device = attributes.device;
  // Kernels use the address as it is.
  if (info.kind == MemoryKind::kPinned && attributes.devicePointer != address) info.kind = MemoryKind::kHost;
  // Not known of all memory (of pools, or mapped by cuMemMap): no reason to refuse a call on it.
  if (info.kind == MemoryKind::kDevice)
    if (auto added = add_allocation(address, &info); !added) info.allocation_id = info.base = info.bytes = 0;
  return info;
}

}  // namespace twohop
