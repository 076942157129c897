// The lane kernels of float32 and float64.
#include "collectives/exec/cuda/lane_kernel.hpp"

namespace twohop {

const void* float_lane_kernel(twohopDataType_t type) {
  switch (type) {
    case twohopFloat32:
      return reinterpret_cast<const void*>(&lane_kernel<element::Of<twohopFloat32>>);
    case twohopFloat64:
      return reinterpret_cast<const void*>(&lane_kernel<element::Of<twohopFloat64>>);
    default:
      return nullptr;
  }
}

}  // namespace twohop
