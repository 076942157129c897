// See lane_kernels.hpp.
#include "collectives/exec/cuda/lane_kernels.hpp"

#include <initializer_list>

namespace twohop {

const void* lane_kernel_of(twohopDataType_t type) {
  for (auto family : {integer_lane_kernel, float_lane_kernel, small_float_lane_kernel})
    if (const void* kernel = family(type)) return kernel;
  return nullptr;
}

}  // namespace twohop
