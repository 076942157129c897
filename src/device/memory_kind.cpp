// Names for the kinds of memory, with and without CUDA.
#include "device/cuda_device.hpp"

namespace twohop {

const char* memory_kind_name(MemoryKind kind) {
  switch (kind) {
    case MemoryKind::kHost:
      return "host memory";
    case MemoryKind::kPinned:
      return "pinned host memory";
    case MemoryKind::kDevice:
      return "device memory";
    case MemoryKind::kManaged:
      return "managed memory";
  }
  return "?";
}

}  // namespace twohop
