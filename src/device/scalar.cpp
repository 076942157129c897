// Scale factors: one, 1/n, and one element of any type read as a factor.
#include <cmath>
#include <cstring>
#include <limits>

#include "device/reduce.hpp"

namespace twohop {
namespace {

template <class T>
T read_as(const void* element) {
  T value;
  std::memcpy(&value, element, sizeof value);
  return value;
}

/// A float of 8 or 16 bits as float32, exactly. ieee: the top exponent means infinity and NaN; else only all ones is
/// NaN (fp8 e4m3).
float widen(unsigned pattern, int exp_bits, int mant_bits, bool ieee) {
  const unsigned max_exp = (1u << exp_bits) - 1, max_mant = (1u << mant_bits) - 1;
  const unsigned mant = pattern & max_mant, exp = (pattern >> mant_bits) & max_exp;
  const float sign = (pattern >> (exp_bits + mant_bits)) & 1 ? -1.0f : 1.0f;
  const bool top = exp == max_exp;
  if (top && (ieee ? mant != 0 : mant == max_mant)) return std::numeric_limits<float>::quiet_NaN();
  if (top && ieee) return sign * std::numeric_limits<float>::infinity();
  const int bias = (1 << (exp_bits - 1)) - 1;
  const unsigned significand = exp == 0 ? mant : mant + max_mant + 1;
  return sign * std::ldexp(static_cast<float>(significand), (exp == 0 ? 1 : static_cast<int>(exp)) - bias - mant_bits);
}

Scalar from_float(float value) {
  Scalar s{};
  s.f32 = value;
  return s;
}
Scalar from_bits(uint64_t bits) {
  Scalar s{};
  s.bits = bits;
  return s;
}

}  // namespace

Scalar one(twohopDataType_t type) {
  return reciprocal(type, 1);
}

Scalar reciprocal(twohopDataType_t type, uint64_t n) {
  if (!is_floating(type)) return from_bits(1);
  if (type != twohopFloat64) return from_float(1.0f / static_cast<float>(n));
  Scalar s{};
  s.f64 = 1.0 / static_cast<double>(n);
  return s;
}

Scalar load_scalar(const void* element, twohopDataType_t type) {
  switch (type) {
    case twohopInt8:
    case twohopUint8:
      return from_bits(read_as<uint8_t>(element));
    case twohopInt32:
    case twohopUint32:
      return from_bits(read_as<uint32_t>(element));
    case twohopInt64:
    case twohopUint64:
    case twohopFloat64:  // the same eight bytes
      return from_bits(read_as<uint64_t>(element));
    case twohopFloat16:
      return from_float(widen(read_as<uint16_t>(element), 5, 10, true));
    case twohopFloat32:
      return from_float(read_as<float>(element));
    case twohopBfloat16:
      return from_float(widen(read_as<uint16_t>(element), 8, 7, true));
    case twohopFloat8e4m3:
      return from_float(widen(read_as<uint8_t>(element), 4, 3, false));
    case twohopFloat8e5m2:
      return from_float(widen(read_as<uint8_t>(element), 5, 2, true));
  }
  return from_bits(0);
}

}  // namespace twohop
