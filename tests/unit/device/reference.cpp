#include "reference.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace twohop::reference {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

double decode_finite(const SmallFloat& f, uint32_t magnitude) {
  const int bias = (1 << (f.exp_bits - 1)) - 1;
  const uint32_t exp = magnitude >> f.mant_bits, mant = magnitude & ((1u << f.mant_bits) - 1);
  if (exp == 0) return std::ldexp(mant, 1 - bias - f.mant_bits);
  return std::ldexp(mant + (1u << f.mant_bits), int(exp) - bias - f.mant_bits);
}

uint32_t sign_bit(const SmallFloat& f) {
  return 1u << (f.exp_bits + f.mant_bits);
}

uint64_t encode_small(const SmallFloat& f, double value) {
  if (std::isnan(value)) return f.canonical_nan;
  const double magnitude = std::fabs(value);
  uint32_t low = 0, high = f.top;  // value(low) <= magnitude; `top` counts as the value that would come next
  if (magnitude >= decode_finite(f, f.top)) low = f.top;
  while (high - low > 1) {
    const uint32_t middle = (low + high) / 2;
    (decode_finite(f, middle) <= magnitude ? low : high) = middle;
  }
  if (low < f.top) {
    const double half_way = (decode_finite(f, low) + decode_finite(f, low + 1)) / 2;  // exact in double
    if (magnitude > half_way || (magnitude == half_way && low % 2 == 1)) ++low;
  }
  low = std::min(low, f.largest_result);
  return low | (std::signbit(value) ? sign_bit(f) : 0);
}

/// The result of a float32 operation whose double result is given: double is wide enough for + and * that rounding
/// twice gives the same.
double to_float32(double x) {
  return static_cast<double>(static_cast<float>(x));
}

bool is_less(double a, double b) {  // neither NaN; -0 < +0
  return a < b || (a == b && std::signbit(a) && !std::signbit(b));
}

double fold_floats(MathOp op, double a, double b) {
  if (op == MathOp::kSum) return a + b;
  if (op == MathOp::kProd) return a * b;
  if (std::isnan(a)) return b;
  if (std::isnan(b)) return a;
  return is_less(a, b) == (op == MathOp::kMin) ? a : b;
}

uint64_t reduce_floats(twohopDataType_t type, MathOp op, const std::vector<uint64_t>& elements, const Scalar* scales) {
  double result = 0;
  for (size_t s = 0; s < elements.size(); ++s) {
    double x = decode(type, elements[s]);
    if (scales != nullptr) {
      x *= type == twohopFloat64 ? scales[s].f64 : double(scales[s].f32);
      if (type != twohopFloat64) x = to_float32(x);
    }
    result = s == 0 ? x : fold_floats(op, result, x);
    if (type != twohopFloat64) result = to_float32(result);
  }
  return encode(type, result);
}

bool is_signed(twohopDataType_t type) {
  return type == twohopInt8 || type == twohopInt32 || type == twohopInt64;
}

/// The low bits of x as a number of the type.
__int128 wrapped(twohopDataType_t type, unsigned __int128 x) {
  const int bits = 8 * int(type_size(type));
  const unsigned __int128 span = (unsigned __int128)1 << bits;
  const unsigned __int128 low = x % span;
  return is_signed(type) && low >= span / 2 ? __int128(low) - __int128(span) : __int128(low);
}

uint64_t reduce_integers(twohopDataType_t type, MathOp op, const std::vector<uint64_t>& elements, const Scalar* scales,
                         uint64_t divisor) {
  __int128 result = 0;
  for (size_t s = 0; s < elements.size(); ++s) {
    unsigned __int128 bits = elements[s];
    if (scales != nullptr) bits *= scales[s].bits;
    const __int128 x = wrapped(type, bits);
    if (s == 0) {
      result = x;
    } else if (op == MathOp::kSum) {
      result = wrapped(type, (unsigned __int128)result + (unsigned __int128)x);
    } else if (op == MathOp::kProd) {
      result = wrapped(type, (unsigned __int128)result * (unsigned __int128)x);
    } else {
      result = (x < result) == (op == MathOp::kMin) ? x : result;
    }
  }
  if (divisor > 1) result /= __int128(divisor);
  const int unused = 64 - 8 * int(type_size(type));
  return uint64_t(result) << unused >> unused;
}

}  // namespace

const SmallFloat& small_float(twohopDataType_t type) {
  static const SmallFloat kHalf{5, 10, 0x7c00, 0x7e00, 0x7c00, true};
  static const SmallFloat kBfloat{8, 7, 0x7f80, 0x7fc0, 0x7f80, true};
  static const SmallFloat kE4m3{4, 3, 0x7f, 0x7f, 0x7e, false};
  static const SmallFloat kE5m2{5, 2, 0x7c, 0x7e, 0x7b, true};
  switch (type) {
    case twohopFloat16:
      return kHalf;
    case twohopBfloat16:
      return kBfloat;
    case twohopFloat8e4m3:
      return kE4m3;
    default:
      return kE5m2;
  }
}

double decode(twohopDataType_t type, uint64_t pattern) {
  if (type == twohopFloat64) {
    double x;
    std::memcpy(&x, &pattern, 8);
    return x;
  }
  if (type == twohopFloat32) {
    const auto bits = uint32_t(pattern);
    float x;
    std::memcpy(&x, &bits, 4);
    return x;
  }
  const SmallFloat& f = small_float(type);
  const uint32_t magnitude = uint32_t(pattern) & (sign_bit(f) - 1);
  double x = decode_finite(f, magnitude);
  if (magnitude >= f.top) x = f.has_infinity && magnitude == f.top ? kInf : kNaN;
  return pattern & sign_bit(f) ? -x : x;
}

uint64_t encode(twohopDataType_t type, double value) {
  if (type == twohopFloat64) {
    if (std::isnan(value)) return 0x7ff8000000000000;
    uint64_t bits;
    std::memcpy(&bits, &value, 8);
    return bits;
  }
  if (type == twohopFloat32) {
    if (std::isnan(value)) return 0x7fc00000;
    const auto x = static_cast<float>(value);
    uint32_t bits;
    std::memcpy(&bits, &x, 4);
    return bits;
  }
  return encode_small(small_float(type), value);
}

uint64_t get(twohopDataType_t type, const void* data, size_t i) {
  uint64_t pattern = 0;
  const size_t bytes = type_size(type);
  std::memcpy(&pattern, static_cast<const std::byte*>(data) + i * bytes, bytes);  // little-endian
  return pattern;
}

void put(twohopDataType_t type, void* data, size_t i, uint64_t pattern) {
  const size_t bytes = type_size(type);
  std::memcpy(static_cast<std::byte*>(data) + i * bytes, &pattern, bytes);
}

uint64_t reduce(twohopDataType_t type, MathOp op, const std::vector<uint64_t>& elements, const Scalar* scales,
                uint64_t divisor) {
  return is_floating(type) ? reduce_floats(type, op, elements, scales)
                           : reduce_integers(type, op, elements, scales, divisor);
}

}  // namespace twohop::reference
