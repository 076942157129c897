// Which GPUs can this process use, and what does CUDA know about an address? The answer is "none" and "nothing" where
// the library was built without CUDA, or the machine has no driver or no GPU: the host path then does all the work.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.hpp"

namespace twohop {

struct CudaStatus {
  bool built = false;   // with the CUDA back end
  int devices = 0;      // that this process may use
  std::string why;      // there are none; empty otherwise
  bool broken = false;  // there is a driver, so that others may hand us its memory, and we cannot use it
};

/// Asked once, at the first call. Creates no context on any GPU.
const CudaStatus& cuda_status();

enum class MemoryKind : uint8_t {
  kHost,     // unknown to CUDA
  kPinned,   // host memory that the GPUs can reach
  kDevice,   // of one GPU
  kManaged,  // moves by itself
};
const char* memory_kind_name(MemoryKind kind);

struct MemoryInfo {
  MemoryKind kind = MemoryKind::kHost;
  int device = -1;  // kDevice, kManaged
  uint64_t allocation_id =
      0;  // kDevice, 0: not known; never used twice in a process, so that it tells a reused address from the old
  uint64_t base = 0;  // kDevice: address and size of the whole allocation
  uint64_t bytes = 0;
};

/// What `address` is. Cheap where there is no GPU: nothing is asked then. Makes no context on any GPU.
Result<MemoryInfo> memory_info(const void* address);

}  // namespace twohop
