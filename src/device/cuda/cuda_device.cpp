// cuda_device.hpp by the CUDA runtime and, for what it knows of memory, the driver, whose functions the runtime finds
// for us: nothing here links to it.
#include "device/cuda_device.hpp"

#include <array>

#include "device/cuda/cuda_answers.hpp"
#include "device/cuda/on_device.hpp"

namespace twohop {
namespace {

CudaStatus ask() {
  int devices = 0, version = 0;
  const cudaError_t error = cudaGetDeviceCount(&devices);
  (void)cudaDriverGetVersion(&version);
  if (error != cudaSuccess) (void)cudaGetLastError();  // or the user's next check would see it
  return cuda_status_of(error, devices, version);
}

std::string version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

/// One question for several attributes; what does not apply to an address is 0.
template <class... Values>
CUresult ask(const CudaDriver& driver, const void* address, std::array<CUpointer_attribute, sizeof...(Values)> names,
             Values*... values) {
  std::array<void*, sizeof...(Values)> places = {values...};
  return driver.pointer_get_attributes(names.size(), names.data(), places.data(),
                                       reinterpret_cast<CUdeviceptr>(address));
}

/// Where the memory's own context sees it: kernels use the address as it is. Only what is older than cuMemMap has a
/// context, and only that may have two addresses.
bool has_same_address(const CudaDriver& driver, CUcontext context, const void* address) {
  const auto at = reinterpret_cast<CUdeviceptr>(address);
  CUdeviceptr seen = 0;
  if (!context) return true;
  if (driver.ctx_push_current(context) != CUDA_SUCCESS) return false;
  const CUresult asked = driver.pointer_get_attribute(&seen, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, at);
  (void)driver.ctx_pop_current(&context);
  return asked == CUDA_SUCCESS && seen == at;
}

/// Not known of all memory (of pools, or mapped by cuMemMap): no reason to refuse a call on it.
void add_allocation(const CudaDriver& driver, const void* address, MemoryInfo* info) {
  unsigned long long id = 0;
  CUdeviceptr base = 0;
  size_t bytes = 0;
  if (ask(driver, address,
          {CU_POINTER_ATTRIBUTE_BUFFER_ID, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, CU_POINTER_ATTRIBUTE_RANGE_SIZE}, &id,
          &base, &bytes) != CUDA_SUCCESS)
    return;
  info->allocation_id = id;
  info->base = base;
  info->bytes = bytes;
}

/// Pre: a context is current; the question may be refused otherwise.
CUresult look(const CudaDriver& driver, const void* address, MemoryInfo* info) {
  unsigned type = 0, managed = 0;
  int device = -1;
  CUcontext context = nullptr;
  if (CUresult r = ask(driver, address,
                       {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                        CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_CONTEXT},
                       &type, &managed, &device, &context);
      r != CUDA_SUCCESS)
    return r;
  if (managed != 0) {
    info->kind = MemoryKind::kManaged;
    info->device = device;
  } else if (type == CU_MEMORYTYPE_DEVICE) {
    info->kind = MemoryKind::kDevice;
    info->device = device;
    add_allocation(driver, address, info);
  } else if (type == CU_MEMORYTYPE_HOST && has_same_address(driver, context, address)) {
    info->kind = MemoryKind::kPinned;
  }
  return CUDA_SUCCESS;
}

/// A device whose primary context is there already; -1: none.
int device_in_use(const CudaDriver& driver, int devices) {
  for (int device = 0; device < devices; ++device) {
    unsigned flags = 0;
    int active = 0;
    if (driver.primary_ctx_get_state(device, &flags, &active) == CUDA_SUCCESS && active != 0) return device;
  }
  return -1;
}

}  // namespace

CudaStatus cuda_status_of(cudaError_t error, int devices, int driver_version) {
  CudaStatus status;
  status.built = true;
  if (error == cudaSuccess) {
    status.devices = devices;
    if (devices == 0) status.why = "the CUDA driver lists no GPU; is CUDA_VISIBLE_DEVICES empty?";
    return status;
  }
  status.why = fmt::format("{} ({})", cudaGetErrorString(error), cudaGetErrorName(error));
  // The runtime calls a driver that is missing insufficient, too.
  if (error == cudaErrorInsufficientDriver)
    status.why += driver_version == 0 ? std::string(": there is no driver")
                                      : fmt::format(": the driver is for CUDA {}, and twohop was built with CUDA {}",
                                                    version_text(driver_version), version_text(CUDART_VERSION));
  status.broken = driver_version != 0 && error != cudaErrorNoDevice && error != cudaErrorStubLibrary;
  return status;
}

const CudaStatus& cuda_status() {
  static const CudaStatus status = ask();
  return status;
}

Result<MemoryInfo> memory_info(const CudaDriver& driver, int devices, const void* address) {
  MemoryInfo info;
  CUcontext current = nullptr;
  CUresult result = driver.ctx_get_current(&current);
  if (result == CUDA_SUCCESS && current) result = look(driver, address, &info);
  // cudaDeviceReset leaves such a context to the threads.
  if ((result == CUDA_SUCCESS && !current) || result == CUDA_ERROR_CONTEXT_IS_DESTROYED) {
    const int device = device_in_use(driver, devices);
    if (device < 0) return info;
    const OnDevice on(driver, device);
    result = look(driver, address, &info);
  }
  if (result != CUDA_SUCCESS) return driver_error(result, "cannot ask what kind of memory {} is", address);
  return info;
}

/// By the driver: the runtime would make a context first, which programs on host memory need not pay for.
Result<MemoryInfo> memory_info(const void* address) {
  if (cuda_status().devices == 0) return MemoryInfo{};
  auto driver = cuda_driver();
  if (!driver) return driver.error();
  return memory_info(**driver, cuda_status().devices, address);
}

}  // namespace twohop
