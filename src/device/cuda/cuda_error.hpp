// How a CUDA error becomes one of ours.
#pragma once

#include <cuda_runtime_api.h>

#include <utility>

#include "base/result.hpp"

namespace twohop {

/// A twohopUnhandledCudaError ending in ": <CUDA's text> (cudaErrorName)".
template <class... Args>
[[nodiscard]] Error cuda_error(cudaError_t status, fmt::format_string<Args...> f, Args&&... args) {
  Error e = make_error(twohopUnhandledCudaError, f, std::forward<Args>(args)...);
  e.message += fmt::format(": {} ({})", cudaGetErrorString(status), cudaGetErrorName(status));
  return e;
}

}  // namespace twohop
