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
  decltype(&cuPointerSetAttribute) pointer_set_attribute = nullptr;
  decltype(&cuMemGetHandleForAddressRange) mem_get_handle_for_address_range = nullptr;
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
