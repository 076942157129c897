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

/// Declares special() for the types that have one.
template <class Words>
struct Float8Special {};
template <>
struct Float8Special<Float8e4m3Words> {
  static constexpr uint32_t kSigns = Float8e4m3Words::kSigns;
  [[gnu::always_inline]] static U32 special(const std::byte* p) { return Float8e4m3Words::special(p); }
};

template <class Words>
struct Float8Pair : Float8Special<Words> {
  using Acc = U16;
  using Lane = uint16_t;
  using Fallback = SmallFloatSum<typename Words::General>;
  static constexpr int kParts = 2;
  [[gnu::always_inline]] static void load(const std::byte* p, Acc* acc) {
    Words::widen(twohop::load<U16>(p), acc[0], acc[1]);
  }
  [[gnu::always_inline]] static void fold(Acc* acc, const Acc* next) {
    for (int i = 0; i < kParts; ++i) acc[i] = add_nearest(acc[i], next[i]);
  }
  [[gnu::always_inline]] static bool try_store(std::byte* p, const Acc* acc) {
    if (nan_lanes(acc[0], acc[1]) != 0) [[unlikely]]
      return false;
    twohop::store(p, Words::rounded(acc[0], acc[1]));
    return true;
  }
};

template <class Words>
struct Float8Bounds : Float8Special<Words> {
  using Acc = U16;
  using Lane = uint16_t;
  using Fallback = SmallFloatSum<typename Words::General>;
  using ForTwo = Float8Pair<Words>;
  static constexpr int kParts = 4;  // the lower bounds of even and odd elements, the upper bounds of even and odd ones

  [[gnu::always_inline]] static void load(const std::byte* p, Acc* acc) {
    Words::widen(twohop::load<U16>(p), acc[0], acc[1]);
    acc[2] = acc[0], acc[3] = acc[1];
  }
  [[gnu::always_inline]] static void fold(Acc* acc, const Acc* next) {
    for (int i = 0; i < 2; ++i) acc[i] = add_float16<_MM_FROUND_TO_NEG_INF>(acc[i], next[i]);
    for (int i = 2; i < 4; ++i) acc[i] = add_float16<_MM_FROUND_TO_POS_INF>(acc[i], next[i]);
  }
  [[gnu::always_inline]] static bool try_store(std::byte* p, const Acc* acc) {
    // Rounded down, x + -x is -0: no bound of the +0 that it is. A sum of nothing but -0 is left to the fallback.
    const U16 zero = {};
    const Acc even = add_nearest(acc[0], zero), odd = add_nearest(acc[1], zero);
    if constexpr (Words::kExactSums) {
      return store_between(p, even, odd, acc[2], acc[3]);
    } else {
      return store_agreed(p, even, odd, acc[2], acc[3]);
    }
  }

 private:
  /// Where both bounds round alike. A lower bound that is no NaN excludes NaN: that comes from a NaN or from
  /// infinities of both signs among the sources, which make a NaN of every chain of additions.
  [[gnu::always_inline]] static bool store_agreed(std::byte* p, Acc even, Acc odd, Acc even_above, Acc odd_above) {
    const U8 low = Words::rounded(even, odd), high = Words::rounded(even_above, odd_above);
    const __mmask64 differ = _mm512_cmpneq_epi8_mask(as<__m512i>(low), as<__m512i>(high));
    if ((differ | nan_lanes(even, odd)) != 0) [[unlikely]]
      return false;
    twohop::store(p, high);
    return true;
  }

  /// Sums that float32 does not round are strictly between the bounds once an addition was inexact. Strictly between
  /// two neighbours, whichever of them is odd stands for the sum: its last bit is that something was cut off (rounding
  /// to odd), and it is far enough below fp8's last bit. So sums just beside half-way points are decided too.
  [[gnu::always_inline]] static bool store_between(std::byte* p, Acc even, Acc odd, Acc even_above, Acc odd_above) {
    const U16 even_gap = even_above - even + uint16_t(1), odd_gap = odd_above - odd + uint16_t(1);
    const __m512i gap = _mm512_max_epu16(as<__m512i>(even_gap), as<__m512i>(odd_gap));
    if (_mm512_cmpgt_epu16_mask(gap, as<__m512i>(splat(uint16_t(2)))) != 0) [[unlikely]]
      return false;
    twohop::store(p, Words::rounded(odd_one(even, even_above), odd_one(odd, odd_above)));
    return true;
  }
  [[gnu::always_inline]] static Acc odd_one(Acc low, Acc high) {
    const __m512i l = as<__m512i>(low), h = as<__m512i>(high);
    return as<Acc>(_mm512_mask_mov_epi16(h, _mm512_test_epi16_mask(l, as<__m512i>(splat(uint16_t(1)))), l));
  }
};

}  // namespace
}  // namespace twohop
