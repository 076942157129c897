// See cuda_driver.hpp.
#include "device/cuda/cuda_driver.hpp"

#include "device/cuda/cuda_error.hpp"

namespace twohop {
namespace {

constexpr unsigned kVersion = 12000;  // of the functions' signatures

template <class Function>
Result<> find(const char* name, Function** function) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult status = cudaDriverEntryPointSymbolNotFound;
  const cudaError_t error = cudaGetDriverEntryPointByVersion(name, &found, kVersion, cudaEnableDefault, &status);
  if (error != cudaSuccess) {
    (void)cudaGetLastError();
    return cuda_error(error, "cannot look up {} in the CUDA driver", name);
  }
  if (status != cudaDriverEntryPointSuccess || found == nullptr)
    return make_error(twohopUnhandledCudaError, "the CUDA driver has no {}; a driver for CUDA 12.0 or newer has it",
                      name);
  *function = reinterpret_cast<Function*>(found);
  return {};
}

Result<CudaDriver> find_all() {
  CudaDriver d;
  for (const Result<>& found : {find("cuMemGetAddressRange", &d.mem_get_address_range),
                                find("cuPointerGetAttribute", &d.pointer_get_attribute),
                                find("cuPointerGetAttributes", &d.pointer_get_attributes),
                                find("cuPointerSetAttribute", &d.pointer_set_attribute),
                                find("cuMemGetHandleForAddressRange", &d.mem_get_handle_for_address_range),
                                find("cuMemCreate", &d.mem_create),
                                find("cuMemRelease", &d.mem_release),
                                find("cuMemExportToShareableHandle", &d.mem_export),
                                find("cuMemImportFromShareableHandle", &d.mem_import),
                                find("cuMemGetAllocationGranularity", &d.mem_granularity),
                                find("cuMemAddressReserve", &d.mem_address_reserve),
                                find("cuMemAddressFree", &d.mem_address_free),
                                find("cuMemMap", &d.mem_map),
                                find("cuMemUnmap", &d.mem_unmap),
                                find("cuMemSetAccess", &d.mem_set_access),
                                find("cuMemAlloc", &d.mem_alloc),
                                find("cuMemFree", &d.mem_free),
                                find("cuMemsetD8Async", &d.memset_d8_async),
                                find("cuStreamSynchronize", &d.stream_synchronize),
                                find("cuIpcGetMemHandle", &d.ipc_get_mem_handle),
                                find("cuIpcOpenMemHandle", &d.ipc_open_mem_handle),
                                find("cuIpcCloseMemHandle", &d.ipc_close_mem_handle),
                                find("cuDeviceGetAttribute", &d.device_get_attribute),
                                find("cuDevicePrimaryCtxGetState", &d.primary_ctx_get_state),
                                find("cuDevicePrimaryCtxRetain", &d.primary_ctx_retain),
                                find("cuDevicePrimaryCtxRelease", &d.primary_ctx_release),
                                find("cuCtxGetCurrent", &d.ctx_get_current),
                                find("cuCtxPushCurrent", &d.ctx_push_current),
                                find("cuCtxPopCurrent", &d.ctx_pop_current),
                                find("cuThreadExchangeStreamCaptureMode", &d.thread_exchange_capture_mode),
                                find("cuCtxEnablePeerAccess", &d.ctx_enable_peer_access),
                                find("cuGetErrorString", &d.get_error_string),
                                find("cuGetErrorName", &d.get_error_name)})
    if (!found) return found.error();
  return d;
}

}  // namespace

Result<const CudaDriver*> cuda_driver() {
  static const Result<CudaDriver> driver = find_all();
  if (!driver) return driver.error();
  return &*driver;
}

std::string driver_error_text(CUresult status) {
  auto driver = cuda_driver();
  const char *text = nullptr, *name = nullptr;
  if (driver) {
    (*driver)->get_error_string(status, &text);
    (*driver)->get_error_name(status, &name);
  }
  return fmt::format("{} ({})", text ? text : "unknown error", name ? name : std::to_string(status));
}

}  // namespace twohop
