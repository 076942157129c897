// From a datatype known at run time to its element type: f(ElementType{}).
#pragma once

#include "device/element/element.hpp"

namespace twohop::element {

template <class F>
void with_element(twohopDataType_t type, F&& f) {
  switch (type) {
    case twohopInt8:
      return f(Of<twohopInt8>{});
    case twohopUint8:
      return f(Of<twohopUint8>{});
    case twohopInt32:
      return f(Of<twohopInt32>{});
    case twohopUint32:
      return f(Of<twohopUint32>{});
    case twohopInt64:
      return f(Of<twohopInt64>{});
    case twohopUint64:
      return f(Of<twohopUint64>{});
    case twohopFloat16:
      return f(Of<twohopFloat16>{});
    case twohopFloat32:
      return f(Of<twohopFloat32>{});
    case twohopFloat64:
      return f(Of<twohopFloat64>{});
    case twohopBfloat16:
      return f(Of<twohopBfloat16>{});
    case twohopFloat8e4m3:
      return f(Of<twohopFloat8e4m3>{});
    case twohopFloat8e5m2:
      return f(Of<twohopFloat8e5m2>{});
  }
}

}  // namespace twohop::element
