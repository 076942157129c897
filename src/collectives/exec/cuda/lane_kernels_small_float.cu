// The lane kernels of the floats of 8 and 16 bits.
#include "collectives/exec/cuda/lane_kernel.hpp"

namespace twohop {

const void* small_float_lane_kernel(twohopDataType_t type) {
  switch (type) {
    case twohopFloat16:
      return reinterpret_cast<const void*>(&lane_kernel<element::Of<twohopFloat16>>);
    case twohopBfloat16:
      return reinterpret_cast<const void*>(&lane_kernel<element::Of<twohopBfloat16>>);
    case twohopFloat8e4m3:
      return reinterpret_cast<const void*>(&lane_kernel<element::Of<twohopFloat8e4m3>>);
    case twohopFloat8e5m2:
      return reinterpret_cast<const void*>(&lane_kernel<element::Of<twohopFloat8e5m2>>);
    default:
      return nullptr;
  }
}

}  // namespace twohop
