// reduce_perf --device where it is built without CUDA.
#include "reduce_gpu.hpp"

#include <cstdio>

namespace twohop {

int reduce_on_gpu() {
  std::fputs("reduce_perf: --device: it was built without CUDA (TWOHOP_CUDA)\n", stderr);
  return 77;
}

}  // namespace twohop
