// The driver's stack of contexts, played: one for each thread, and a primary context for each GPU.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "device/cuda/cuda_driver.hpp"

namespace twohop::played {

inline thread_local std::vector<CUcontext> stack;  // of the thread; the last is current

inline CUcontext context_of(int device) {
  return reinterpret_cast<CUcontext>(static_cast<intptr_t>(device + 1));
}
inline CUresult push(CUcontext context) {
  stack.push_back(context);
  return CUDA_SUCCESS;
}
inline CUresult pop(CUcontext* context) {
  if (stack.empty()) return CUDA_ERROR_INVALID_CONTEXT;
  *context = stack.back();
  stack.pop_back();
  return CUDA_SUCCESS;
}

/// Knows nothing but the stack; never freed, since contexts are remembered by driver.
inline CudaDriver& new_driver() {
  static std::deque<CudaDriver> drivers;
  CudaDriver& driver = drivers.emplace_back();
  driver.ctx_push_current = push;
  driver.ctx_pop_current = pop;
  return driver;
}

}  // namespace twohop::played
