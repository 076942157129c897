// The library is built without CUDA: there is no GpuRuntime, and all memory is the host's.
#include "collectives/exec/gpu/gpu_runtime.hpp"

namespace twohop {

GpuRuntime* built_in_gpu_runtime() {
  return nullptr;
}

}  // namespace twohop
