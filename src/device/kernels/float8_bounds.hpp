// Sums of fp8 in float16 arithmetic, with proof that float32 would have given the same.
//
// The result is defined as the sum in float32, from left to right, rounded to fp8. Two sources need no more than one
// float16 addition: 11 bits are at least 2 * 4 + 2, so that rounding to 11 and then to 4 or 3 bits is rounding once.
// With more, the sum is formed twice, each addition rounded down in one and up in the other. Each is a bound of the
// float32 sum: that starts as equal to both, an addition keeps the order, and float32's own rounding cannot leave an
// interval whose ends are float32 numbers, as all float16 numbers are. Where both bounds round to the same fp8, so does
// whatever lies between. Where they do not, which depends on the data but is rare, the general way is taken.
#pragma once

#include "device/kernels/float8_words.hpp"
#include "device/kernels/small_float_sum.hpp"

namespace twohop {
namespace {

/// Declares special() for the type that has one.
template <class Type>
struct Float8Special {};
template <>
struct Float8Special<Float8e4m3Words> {
  static constexpr uint32_t kSigns = Float8e4m3Words::kSigns;
  [[gnu::always_inline]] static U32 special(const std::byte* p, U32 so_far) {
    return Float8e4m3Words::special(p, so_far);
  }
};

template <class Type>
struct Float8Pair : Float8Special<Type> {
  using Acc = Words;
  using Lane = uint8_t;
  using Fallback = SmallFloatSum<typename Type::General>;
  static constexpr int kParts = 1, kUnroll = 2;
  [[gnu::always_inline]] static void load(const std::byte* p, Acc* acc) { *acc = Type::widen(twohop::load<U16>(p)); }
  [[gnu::always_inline]] static void fold(Acc* acc, const Acc* next) {
    *acc = {add_nearest(acc->even, next->even), add_nearest(acc->odd, next->odd)};
  }
  template <int kVectors>
  [[gnu::always_inline]] static bool try_store(std::byte* p, const Acc* acc) {
    __mmask32 nans = 0;
    for (int v = 0; v < kVectors; ++v) nans = _kor_mask32(nans, Type::nans(acc[v]));
    if (nans != 0) [[unlikely]]
      return false;
    for (int v = 0; v < kVectors; ++v) twohop::store(p + v * kVectorBytes, Type::rounded(acc[v]));
    return true;
  }
};

struct Bounds {
  Words low, high;
};

template <int kRounding>
[[gnu::always_inline]] inline Words add_words(Words a, Words b) {
  return {add_float16<kRounding>(a.even, b.even), add_float16<kRounding>(a.odd, b.odd)};
}

/// A NaN of the sum, which comes from a NaN or from infinities of both signs among the sources, is one of its lower
/// bound too: they make a NaN of every chain of additions. So nothing else need be looked for.
template <class Type>
struct Float8Bounds : Float8Special<Type> {
  using Acc = Bounds;
  using Lane = uint8_t;
  using Fallback = SmallFloatSum<typename Type::General>;
  using ForTwo = Float8Pair<Type>;
  static constexpr int kParts = 1, kUnroll = 1;
  [[gnu::always_inline]] static void load(const std::byte* p, Acc* acc) {
    const Words w = Type::widen(twohop::load<U16>(p));
    *acc = {w, w};
  }
  [[gnu::always_inline]] static void fold(Acc* acc, const Acc* next) {
    acc->low = add_words<_MM_FROUND_TO_NEG_INF>(acc->low, next->low);
    acc->high = add_words<_MM_FROUND_TO_POS_INF>(acc->high, next->high);
  }
  template <int kVectors>
  [[gnu::always_inline]] static bool try_store(std::byte* p, const Acc* acc) {
    static_assert(kVectors == 1, "a block is written as a whole or not at all");
    // Rounded down, x + -x is -0: no bound of the +0 that it is. A sum of nothing but -0 is left to the fallback.
    U8 result;
    if (!Type::rounded_alike(add_words<_MM_FROUND_TO_NEAREST_INT>(acc->low, Words{}), acc->high, result)) [[unlikely]]
      return false;
    twohop::store(p, result);
    return true;
  }
};

}  // namespace
}  // namespace twohop
