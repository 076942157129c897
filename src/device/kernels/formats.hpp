// How elements of each type are held while they are folded: load() widens kVectorBytes of elements into kParts
// accumulator vectors, store() rounds them back (where kStoresNoNan says so, NaN is canonical before). The order of the
// lanes is the format's own business, as long as load and store agree; no shuffles are needed then.
#pragma once

#include "device/kernels/isa.hpp"

namespace twohop {
namespace {

/// Integers as they are.
template <class T>
struct Integer {
  using Acc = Vec<T>;
  using Lane = T;
  static constexpr int kParts = 1;
  [[gnu::always_inline]] static void load(const std::byte* p, Acc* acc) { acc[0] = twohop::load<Acc>(p); }
  [[gnu::always_inline]] static void store(std::byte* p, const Acc* acc) { twohop::store(p, acc[0]); }
};

/// A NaN of any payload becomes the canonical quiet one.
template <class I, I kNan, class F>
inline F canonical(F x) {
  return as<F>(x == x ? as<Vec<I>>(x) : splat(kNan));
}
inline F32 canonical(F32 x) {
  return canonical<int32_t, 0x7fc00000>(x);
}

/// float32 and float64, folded in themselves.
template <class F, class I, I kNan>
struct NativeFloat {
  using Acc = Vec<F>;
  using Lane = F;
  static constexpr int kParts = 1;
  [[gnu::always_inline]] static void load(const std::byte* p, Acc* acc) { acc[0] = twohop::load<Acc>(p); }
  [[gnu::always_inline]] static void store(std::byte* p, const Acc* acc) {
    twohop::store(p, canonical<I, kNan>(acc[0]));
  }
};
using Float32 = NativeFloat<float, int32_t, 0x7fc00000>;
using Float64 = NativeFloat<double, int64_t, 0x7ff8000000000000>;

/// bfloat16: the top half of a float32.
struct Bfloat16 {
  using Acc = F32;
  using Lane = float;
  static constexpr int kParts = 2;
  [[gnu::always_inline]] static void load(const std::byte* p, Acc* acc) {
    const U32 pair = twohop::load<U32>(p);
    acc[0] = as<F32>(pair << 16);
    acc[1] = as<F32>(pair & 0xffff0000u);
  }
  static constexpr bool kStoresNoNan = true;
  [[gnu::always_inline]] static void store(std::byte* p, const Acc* acc) { twohop::store(p, rounded(acc[0], acc[1])); }

 private:
  // To nearest even, both parts at once in 16-bit lanes: up when the half cut off is more than half of the last bit, or
  // is just that and the bit is odd.
  [[gnu::always_inline]] static U16 rounded(F32 a, F32 b) {
    const U32 even = as<U32>(a), odd = as<U32>(b);
    const U16 kept = as<U16>(high_halves(even, odd));
    const U16 cut = as<U16>(low_halves(even, odd));
    return increment_above_half(kept, cut | (kept & 1));
  }
};

/// Floats of 8 or 16 bits in integer arithmetic on 32-bit lanes: lane i of part k is element k of the lane's 32 bits.
/// kLargest is the magnitude in float32 at which rounding saturates: the largest finite value (fp8), or the power of
/// two that stands for infinity. kIeee: the top exponent means infinity and NaN; else only all ones is NaN.
template <int kExpBits, int kMantBits, bool kIeee, uint32_t kLargest>
struct SmallFloat {
  using Acc = F32;
  using Lane = float;
  static constexpr int kBits = 1 + kExpBits + kMantBits;
  static constexpr int kParts = 32 / kBits;
  static constexpr int kExtraMant = 23 - kMantBits;
  static constexpr int kExtraBias = 128 - (1 << (kExpBits - 1));
  static constexpr int32_t kMinNormal = (kExtraBias + 1) << 23;  // as float32
  static constexpr int32_t kMagMask = (1 << (kBits - 1)) - 1;
  static constexpr uint32_t kFirstSpecial = kIeee ? uint32_t((1 << kExpBits) - 1) << kMantBits : uint32_t(kMagMask);
  static constexpr uint32_t kLargestCode = (kLargest >> kExtraMant) - (uint32_t(kExtraBias) << kMantBits);
  static constexpr int32_t kNan = kIeee ? kMagMask & ~((1 << (kMantBits - 1)) - 1) : kMagMask;

  [[gnu::always_inline]] static void load(const std::byte* p, Acc* acc) {
    const U32 lanes = twohop::load<U32>(p);
    for (int k = 0; k < kParts; ++k) acc[k] = widen(lanes << (32 - kBits * (k + 1)));
  }
  [[gnu::always_inline]] static void store(std::byte* p, const Acc* acc) {
    U32 lanes = as<U32>(narrow(acc[0]));
    for (int k = 1; k < kParts; ++k) lanes |= as<U32>(narrow(acc[k])) << (kBits * k);
    twohop::store(p, lanes);
  }

  // The pattern is in the top kBits. A denormal is read as if it had the lowest exponent and an implicit one, which is
  // then subtracted: exact, and without a float32 denormal, which costs a hundred cycles to multiply.
  [[gnu::always_inline]] static F32 widen(U32 top) {
    constexpr uint32_t kMask = uint32_t(kMagMask) << (32 - kBits);
    const I32 mag = as<I32>((top & kMask) >> (8 - kExpBits));
    const I32 denormal = mag < (1 << 23);
    const I32 biased = mag + (kExtraBias << 23) + (denormal & (1 << 23));
    const F32 finite = as<F32>(biased) - as<F32>(denormal & kMinNormal);
    const I32 special = mag > splat(kIeee ? (((1 << kExpBits) - 1) << 23) - 1 : (kMagMask << kExtraMant) - 1);
    const I32 value = special ? mag | (kIeee ? 0x7f800000 : 0x7fc00000) : as<I32>(finite);
    return as<F32>(as<U32>(value) | (top & 0x80000000u));
  }

  // To nearest even by one float32 addition: `magic` is a power of two whose last bit weighs as much as the last bit
  // of the result, so the sum's low bits are the rounded significand (denormals too, since the exponent is held at
  // kMinNormal). Its own low bits add the change of bias; they are even, so ties still go to even.
  [[gnu::always_inline]] static I32 narrow(F32 x) {
    constexpr int32_t kRebias = int32_t(0u - (uint32_t(kExtraBias + 1) << kMantBits)) & kMagMask;
    static_assert(kRebias % 2 == 0);
    const I32 bits = as<I32>(x);
    const I32 magnitude = bits & 0x7fffffff;
    const I32 largest = splat(int32_t(kLargest));
    const I32 mag = magnitude < largest ? magnitude : largest;
    const I32 exp_bits = mag & 0x7f800000;
    const I32 exponent = exp_bits > kMinNormal ? exp_bits : splat(kMinNormal);
    const F32 magic = as<F32>(exponent + ((kExtraMant << 23) + kRebias));
    const I32 code = as<I32>(as<F32>(mag) + magic) + (exponent >> kExtraMant);
    const I32 sign = as<I32>((as<U32>(bits) >> (32 - kBits)) & uint32_t(kMagMask + 1));
    return x == x ? (code & kMagMask) | sign : splat(kNan);
  }
};
using Float16Bits = SmallFloat<5, 10, true, 0x47800000>;  // 65536, which reads as infinity
// OCP fp8, rounded saturating-finite: sums beyond the largest finite value stop there. So does an infinity that comes
// in as e5m2: it takes part in the fold as an infinity and goes out as +-57344.
using Float8e4m3 = SmallFloat<4, 3, false, 0x43e00000>;  // 448
using Float8e5m2 = SmallFloat<5, 2, true, 0x47600000>;   // 57344

}  // namespace
}  // namespace twohop
