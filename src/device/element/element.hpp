// One element of each type as scalar code for host and device: how it is widened into an accumulator, folded, scaled,
// divided, and rounded back. The same numbers, bit for bit, as the host's vector kernels (kernels/), which reduce.hpp
// describes; kept apart from them since those are written for CPU vectors.
//
// An element type E has
//   Bits                 what lies in memory; Acc what is computed in
//   widen(Bits) -> Acc, narrow(Acc) -> Bits
//   scale(Scalar) -> Acc  the member of the factor that the type uses
#pragma once

#include <cstdint>
#include <cstring>

#include "device/host_device.hpp"
#include "device/reduce_types.hpp"

namespace twohop::element {

/// The same bits as another type.
template <class To, class From>
TWOHOP_HD inline To bits_as(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  memcpy(&to, &from, sizeof to);
  return to;
}

/// Integers; U is unsigned and of the same width, since sums and products wrap.
template <class T, class U>
struct Integer {
  using Bits = T;
  using Acc = T;
  using Wrapping = U;
  static constexpr bool kFloating = false;
  TWOHOP_HD static Acc widen(Bits x) { return x; }
  TWOHOP_HD static Bits narrow(Acc x) { return x; }
  TWOHOP_HD static Acc scale(const Scalar& s) { return static_cast<T>(s.bits); }
  /// Toward zero; by magnitude, so that divisors beyond T's range are right too.
  TWOHOP_HD static Acc divide(Acc x, uint64_t divisor) {
    if constexpr (T(-1) > T(0)) {
      return static_cast<T>(static_cast<uint64_t>(x) / divisor);
    } else {
      const bool negative = x < T(0);
      const auto bits = static_cast<uint64_t>(x);
      const uint64_t quotient = (negative ? 0 - bits : bits) / divisor;
      return static_cast<T>(negative ? 0 - quotient : quotient);
    }
  }
};

/// float32 and float64, folded in themselves.
template <class F, class I, I kNan>
struct NativeFloat {
  using Bits = F;
  using Acc = F;
  static constexpr bool kFloating = true;
  TWOHOP_HD static Acc widen(Bits x) { return x; }
  TWOHOP_HD static Bits narrow(Acc x) { return x == x ? x : bits_as<F>(kNan); }
  TWOHOP_HD static Acc scale(const Scalar& s) {
    if constexpr (sizeof(F) == 4)
      return s.f32;
    else
      return s.f64;
  }
};

struct FoldedInFloat32 {
  using Acc = float;
  static constexpr bool kFloating = true;
  TWOHOP_HD static Acc scale(const Scalar& s) { return s.f32; }
};

/// The top half of a float32.
struct Bfloat16 : FoldedInFloat32 {
  using Bits = uint16_t;
  TWOHOP_HD static Acc widen(Bits x) { return bits_as<float>(uint32_t(x) << 16); }
  /// To nearest even: half of the last place kept, less one where that place is even, carries over it.
  TWOHOP_HD static Bits narrow(Acc x) {
    const auto bits = bits_as<uint32_t>(x);
    const uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    return static_cast<Bits>(x == x ? rounded : 0x7fc0);
  }
};

/// Floats of 8 or 16 bits. kLargest is the magnitude in float32 at which rounding saturates: the largest finite value
/// (fp8), or the power of two that stands for infinity. kIeee: the top exponent means infinity and NaN; else only all
/// ones is NaN.
template <class B, int kExpBits, int kMantBits, bool kIeee, uint32_t kLargest>
struct SmallFloat : FoldedInFloat32 {
  using Bits = B;
  static constexpr int kExtraMant = 23 - kMantBits;
  static constexpr int kExtraBias = 128 - (1 << (kExpBits - 1));
  static constexpr uint32_t kMagMask = (1u << (kExpBits + kMantBits)) - 1;
  static constexpr uint32_t kFirstSpecial = kIeee ? ((1u << kExpBits) - 1) << kMantBits : kMagMask;
  static constexpr uint32_t kNan = kIeee ? kFirstSpecial | 1u << (kMantBits - 1) : kMagMask;
  static constexpr int kSignShift = 31 - (kExpBits + kMantBits);

  /// Moved to float32's places the pattern *is* a float32, only 2^kExtraBias too small; denormals alike.
  TWOHOP_HD static Acc widen(Bits x) {
    const uint32_t mag = x & kMagMask;
    const float finite = bits_as<float>(mag << kExtraMant) * bits_as<float>(uint32_t(127 + kExtraBias) << 23);
    const uint32_t special = kIeee ? mag << kExtraMant | 0x7f800000u : 0x7fc00000u;
    const uint32_t value = mag >= kFirstSpecial ? special : bits_as<uint32_t>(finite);
    return bits_as<float>(value | (x & (kMagMask + 1)) << kSignShift);
  }

  /// To nearest even by one float32 addition of a power of two whose last place is the result's: the sum's low bits
  /// are the rounded significand, of denormals too, since the exponent is held at the smallest normal one. The power's
  /// own low bits carry the change of bias; they are even, so that ties still go to even.
  TWOHOP_HD static Bits narrow(Acc x) {
    constexpr uint32_t kMinNormal = uint32_t(kExtraBias + 1) << 23;
    constexpr uint32_t kRebias = (0u - (uint32_t(kExtraBias + 1) << kMantBits)) & kMagMask;
    static_assert(kRebias % 2 == 0);
    const auto bits = bits_as<uint32_t>(x);
    const uint32_t magnitude = bits & 0x7fffffffu;
    const uint32_t mag = magnitude < kLargest ? magnitude : kLargest;
    const uint32_t exp_bits = mag & 0x7f800000u;
    const uint32_t exponent = exp_bits > kMinNormal ? exp_bits : kMinNormal;
    const float magic = bits_as<float>(exponent + (uint32_t(kExtraMant) << 23) + kRebias);
    const uint32_t code = bits_as<uint32_t>(bits_as<float>(mag) + magic) + (exponent >> kExtraMant);
    const uint32_t sign = bits >> kSignShift & (kMagMask + 1);
    return static_cast<Bits>(x == x ? (code & kMagMask) | sign : kNan);
  }
};
using Float16Bits = SmallFloat<uint16_t, 5, 10, true, 0x47800000>;  // 65536, which reads as infinity
using Float8e4m3 = SmallFloat<uint8_t, 4, 3, false, 0x43e00000>;    // 448
using Float8e5m2 = SmallFloat<uint8_t, 5, 2, true, 0x47600000>;     // 57344

#ifdef __CUDA_ARCH__
/// By the GPU's own conversions: exact, and to nearest even.
struct Float16 : FoldedInFloat32 {
  using Bits = uint16_t;
  __device__ static Acc widen(Bits x) {
    float wide;
    asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(x));
    return wide;
  }
  __device__ static Bits narrow(Acc x) {
    Bits narrow;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(narrow) : "f"(x));
    return x == x ? narrow : Bits(0x7e00);
  }
};
#else
using Float16 = Float16Bits;
#endif

template <twohopDataType_t>
struct OfType;
// clang-format off
template <> struct OfType<twohopInt8> { using type = Integer<int8_t, uint8_t>; };
template <> struct OfType<twohopUint8> { using type = Integer<uint8_t, uint8_t>; };
template <> struct OfType<twohopInt32> { using type = Integer<int32_t, uint32_t>; };
template <> struct OfType<twohopUint32> { using type = Integer<uint32_t, uint32_t>; };
template <> struct OfType<twohopInt64> { using type = Integer<int64_t, uint64_t>; };
template <> struct OfType<twohopUint64> { using type = Integer<uint64_t, uint64_t>; };
template <> struct OfType<twohopFloat16> { using type = Float16; };
template <> struct OfType<twohopFloat32> { using type = NativeFloat<float, int32_t, 0x7fc00000>; };
template <> struct OfType<twohopFloat64> { using type = NativeFloat<double, int64_t, 0x7ff8000000000000>; };
template <> struct OfType<twohopBfloat16> { using type = Bfloat16; };
template <> struct OfType<twohopFloat8e4m3> { using type = Float8e4m3; };
template <> struct OfType<twohopFloat8e5m2> { using type = Float8e5m2; };
// clang-format on
template <twohopDataType_t kType>
using Of = typename OfType<kType>::type;

}  // namespace twohop::element
