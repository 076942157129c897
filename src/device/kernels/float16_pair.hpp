// float16 sums of two sources by the processor's own float16 addition: one instruction for 32 elements.
//
// The result is defined as the float32 sum, rounded to float16. The two roundings give what a single one gives, since
// float32 has 24 bits and 2 * 11 + 2 are enough for that; sums below float16's normal numbers are exact in both. With
// three sources it would no longer be the same.
#pragma once

#include "device/kernels/isa.hpp"

namespace twohop {
namespace {

template <int kRounding>
[[gnu::always_inline]] inline U16 add_float16(U16 a, U16 b) {
  return as<U16>(_mm512_add_round_ph(as<__m512h>(a), as<__m512h>(b), kRounding | _MM_FROUND_NO_EXC));
}
[[gnu::always_inline]] inline U16 add_nearest(U16 a, U16 b) {
  return add_float16<_MM_FROUND_TO_NEAREST_INT>(a, b);
}

/// A bit for each lane where a or b is NaN.
[[gnu::always_inline]] inline __mmask32 nan_lanes(U16 a, U16 b) {
  return _mm512_cmp_ph_mask(as<__m512h>(a), as<__m512h>(b), _CMP_UNORD_Q);
}

struct Float16Pair {
  using Acc = U16;
  using Lane = uint16_t;
  static constexpr int kParts = 1;
  [[gnu::always_inline]] static void load(const std::byte* p, Acc* acc) { acc[0] = twohop::load<U16>(p); }
  [[gnu::always_inline]] static void fold(Acc* acc, const Acc* next) { acc[0] = add_nearest(acc[0], next[0]); }
  [[gnu::always_inline]] static void store(std::byte* p, const Acc* acc) {
    const __m512i canonical = as<__m512i>(splat(uint16_t(0x7e00)));
    const __m512i x = as<__m512i>(acc[0]);
    twohop::store(p, as<U16>(_mm512_mask_mov_epi16(x, nan_lanes(acc[0], acc[0]), canonical)));
  }
};

}  // namespace
}  // namespace twohop
