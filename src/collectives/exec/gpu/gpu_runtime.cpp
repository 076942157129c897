// Which GpuRuntime is in use?
#include "collectives/exec/gpu/gpu_runtime.hpp"

#include <atomic>

namespace twohop {
namespace {

std::atomic<GpuRuntime*>& in_place_of_it() {
  static std::atomic<GpuRuntime*> runtime{nullptr};
  return runtime;
}

}  // namespace

GpuRuntime* gpu_runtime() {
  if (GpuRuntime* given = in_place_of_it().load(std::memory_order_acquire)) return given;
  static GpuRuntime* const built_in = built_in_gpu_runtime();
  return built_in;
}

void set_gpu_runtime(GpuRuntime* runtime) {
  in_place_of_it().store(runtime, std::memory_order_release);
}

}  // namespace twohop
