// Enumerators that a C program passes: it may pass any number, and none may be taken for an enumerator that is not.
#pragma once

#include <cstring>

#include "base/result.hpp"

namespace twohop {

/// The number as it was passed.
template <class Enum>
int raw_value(const Enum& value) {
  int raw;
  static_assert(sizeof raw == sizeof value);
  std::memcpy(&raw, &value, sizeof raw);
  return raw;
}

inline Result<twohopDataType_t> checked_type(int type) {
  if (type >= 0 && type < TWOHOP_NUM_DATATYPES) return static_cast<twohopDataType_t>(type);
  return make_error(twohopInvalidArgument, "type={}: accepted are the twohopDataType_t values 0 to {}", type,
                    TWOHOP_NUM_DATATYPES - 1);
}

}  // namespace twohop
