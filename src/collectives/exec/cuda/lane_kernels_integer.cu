// The lane kernels of the integers.
#include "collectives/exec/cuda/lane_kernel.hpp"

namespace twohop {

const void* integer_lane_kernel(twohopDataType_t type) {
  switch (type) {
    case twohopInt8:
      return reinterpret_cast<const void*>(&lane_kernel<element::Of<twohopInt8>>);
    case twohopUint8:
      return reinterpret_cast<const void*>(&lane_kernel<element::Of<twohopUint8>>);
    case twohopInt32:
      return reinterpret_cast<const void*>(&lane_kernel<element::Of<twohopInt32>>);
    case twohopUint32:
      return reinterpret_cast<const void*>(&lane_kernel<element::Of<twohopUint32>>);
    case twohopInt64:
      return reinterpret_cast<const void*>(&lane_kernel<element::Of<twohopInt64>>);
    case twohopUint64:
      return reinterpret_cast<const void*>(&lane_kernel<element::Of<twohopUint64>>);
    default:
      return nullptr;
  }
}

}  // namespace twohop
