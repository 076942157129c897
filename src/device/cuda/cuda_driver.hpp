// The few functions of the CUDA driver that the runtime has no equivalent for, found through the runtime when first
// needed, so that the library does not link to libcuda.so and runs where there is none.
#pragma once

#include <cuda.h>

#include <string>

#include "base/result.hpp"

namespace twohop {

struct CudaDriver {
  decltype(&cuMemGetAddressRange) mem_get_address_range = nullptr;
  decltype(&cuPointerGetAttribute) pointer_get_attribute = nullptr;
  decltype(&cuPointerGetAttributes) pointer_get_attributes = nullptr;
  decltype(&cuPointerSetAttribute) pointer_set_attribute = nullptr;
  decltype(&cuMemGetHandleForAddressRange) mem_get_handle_for_address_range = nullptr;
  // Memory that other processes map: by file descriptor, and by IPC handle.
  decltype(&cuMemCreate) mem_create = nullptr;
  decltype(&cuMemRelease) mem_release = nullptr;
  decltype(&cuMemExportToShareableHandle) mem_export = nullptr;
  decltype(&cuMemImportFromShareableHandle) mem_import = nullptr;
  decltype(&cuMemGetAllocationGranularity) mem_granularity = nullptr;
  decltype(&cuMemAddressReserve) mem_address_reserve = nullptr;
  decltype(&cuMemAddressFree) mem_address_free = nullptr;
  decltype(&cuMemMap) mem_map = nullptr;
  decltype(&cuMemUnmap) mem_unmap = nullptr;
  decltype(&cuMemSetAccess) mem_set_access = nullptr;
  decltype(&cuMemAlloc) mem_alloc = nullptr;
  decltype(&cuMemFree) mem_free = nullptr;
  decltype(&cuMemsetD8Async) memset_d8_async = nullptr;
  decltype(&cuStreamSynchronize) stream_synchronize = nullptr;
  decltype(&cuIpcGetMemHandle) ipc_get_mem_handle = nullptr;
  decltype(&cuIpcOpenMemHandle) ipc_open_mem_handle = nullptr;
  decltype(&cuIpcCloseMemHandle) ipc_close_mem_handle = nullptr;
  decltype(&cuDeviceGetAttribute) device_get_attribute = nullptr;
  decltype(&cuDevicePrimaryCtxGetState) primary_ctx_get_state = nullptr;
  decltype(&cuDevicePrimaryCtxRetain) primary_ctx_retain = nullptr;
  decltype(&cuDevicePrimaryCtxRelease) primary_ctx_release = nullptr;
  decltype(&cuCtxGetCurrent) ctx_get_current = nullptr;
  decltype(&cuCtxPushCurrent) ctx_push_current = nullptr;
  decltype(&cuCtxPopCurrent) ctx_pop_current = nullptr;
  decltype(&cuThreadExchangeStreamCaptureMode) thread_exchange_capture_mode = nullptr;
  decltype(&cuCtxEnablePeerAccess) ctx_enable_peer_access = nullptr;

  decltype(&cuGetErrorString) get_error_string = nullptr;
  decltype(&cuGetErrorName) get_error_name = nullptr;
};

/// The error says that there is no driver, or which function it lacks and which version has it.
Result<const CudaDriver*> cuda_driver();

/// "<text> (CUDA_ERROR_NAME)".
std::string driver_error_text(CUresult status);

template <class... Args>
[[nodiscard]] Error driver_error(CUresult status, fmt::format_string<Args...> f, Args&&... args) {
  Error e = make_error(twohopUnhandledCudaError, f, std::forward<Args>(args)...);
  e.message += ": " + driver_error_text(status);
  return e;
}

}  // namespace twohop
