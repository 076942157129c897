// fp8 as float16: a vector of bytes becomes the float16 of its even and of its odd elements, and is rounded back from
// them, all 64 at once.
//
// Both types have
//   widen(v)                   exact
//   nans(words)                not 0 if there are any; rounded() is for what is none
//   rounded(words)             to nearest even, saturating
//   rounded_alike(low, high)   whether both round to the same fp8, which is then in `result`; not if low is a NaN
#pragma once

#include "device/kernels/float16_pair.hpp"
#include "device/kernels/formats.hpp"

namespace twohop {
namespace {

using U8 = Vec<uint8_t>;

struct Words {
  U16 even, odd;
};

/// The bytes of each word of v trade places, where `where` has a bit for the byte; elsewhere bytes are those of
/// `other`.
[[gnu::always_inline]] inline U8 swapped_bytes(U16 other, uint64_t where, U16 v) {
  const __m512i swap = _mm512_set4_epi32(0x0e0f0c0d, 0x0a0b0809, 0x06070405, 0x02030001);
  return as<U8>(_mm512_mask_shuffle_epi8(as<__m512i>(other), where, as<__m512i>(v), swap));
}
/// The high bytes of both, those of `even` in the low places.
[[gnu::always_inline]] inline U8 high_bytes(Words w) {
  return swapped_bytes(w.odd, 0x5555555555555555, w.even);
}
[[gnu::always_inline]] inline U8 low_bytes(Words w) {
  return swapped_bytes(w.even, 0xaaaaaaaaaaaaaaaa, w.odd);
}

/// The high bytes, one more where the low byte is more than half of their last bit, or is just half and that bit is
/// odd.
[[gnu::always_inline]] inline U8 nearest_high_bytes(Words w) {
  const U8 kept = high_bytes(w), sticky = low_bytes(w) | (kept & uint8_t(1));
  const __mmask64 up = _mm512_cmpgt_epu8_mask(as<__m512i>(sticky), as<__m512i>(splat(uint8_t(0x80))));
  return as<U8>(_mm512_mask_add_epi8(as<__m512i>(kept), up, as<__m512i>(kept), as<__m512i>(splat(uint8_t(1)))));
}

[[gnu::always_inline]] inline U8 min_unsigned(U8 a, uint8_t b) {
  return as<U8>(_mm512_min_epu8(as<__m512i>(a), as<__m512i>(splat(b))));
}
[[gnu::always_inline]] inline U8 min_signed(U8 a, uint8_t b) {
  return as<U8>(_mm512_min_epi8(as<__m512i>(a), as<__m512i>(splat(b))));
}
[[gnu::always_inline]] inline __mmask64 differ(U8 a, U8 b) {
  return _mm512_cmpneq_epi8_mask(as<__m512i>(a), as<__m512i>(b));
}

/// The high byte of a float16.
struct Float8e5m2Words {
  using General = Float8e5m2;

  [[gnu::always_inline]] static Words widen(U16 v) { return {v << 8, v & uint16_t(0xff00)}; }
  [[gnu::always_inline]] static __mmask32 nans(Words w) { return nan_lanes(w.even, w.odd); }
  [[gnu::always_inline]] static U8 rounded(Words w) { return saturated(nearest_high_bytes(w)); }
  /// Only one of them saturated, so that a NaN differs from anything. So do sums beyond the largest finite value.
  [[gnu::always_inline]] static bool rounded_alike(Words low, Words high, U8& result) {
    result = rounded(high);
    return differ(nearest_high_bytes(low), result) == 0;
  }

 private:
  [[gnu::always_inline]] static U8 saturated(U8 x) {
    return min_unsigned(min_signed(x, 0x7b), 0xfb);  // the positive ones, then the negative ones
  }
};

/// A float16 without its top exponent bit and its last seven bits; as such 2^8 times too small, which does not matter:
/// no sum of kMaxReduceSources gets near float16's ends. Its NaN is taken for 480: the caller has to look for it
/// (special()).
struct Float8e4m3Words {
  using General = Float8e4m3;

  [[gnu::always_inline]] static Words widen(U16 v) {
    constexpr uint16_t kKept = 0xbf80;  // all but the second sign bit that the products have
    return {times(v, 0x0080) & kKept, times(v, 0x8000) & kKept};
  }
  [[gnu::always_inline]] static __mmask32 nans(Words) { return 0; }
  [[gnu::always_inline]] static U8 rounded(Words w) { return finished(magnitude(w), w); }
  [[gnu::always_inline]] static bool rounded_alike(Words low, Words high, U8& result) {
    const U8 above = magnitude(high);
    const U16 signs = (low.even ^ high.even) | (low.odd ^ high.odd);
    const __mmask32 apart = _mm512_test_epi16_mask(as<__m512i>(signs), as<__m512i>(splat(uint16_t(0x8000))));
    result = finished(above, high);
    return _kortestz_mask64_u8(differ(magnitude(low), above), apart) != 0;
  }

  static constexpr uint32_t kSigns = 0x80808080;
  /// so_far, with the sign bit set of each element that is NaN: to add one turns it over only where all bits below it
  /// are set.
  [[gnu::always_inline]] static U32 special(const std::byte* p, U32 so_far) {
    constexpr int kOrDiffers = 0xf6;  // a | (b ^ c), of which compilers make two instructions
    const U8 v = twohop::load<U8>(p), next = v + uint8_t(1);
    return as<U32>(_mm512_ternarylogic_epi32(as<__m512i>(so_far), as<__m512i>(v), as<__m512i>(next), kOrDiffers));
  }

 private:
  /// The signed bytes of each word times 128 and 0, or 0 and 128.
  [[gnu::always_inline]] static U16 times(U16 v, uint16_t factors) {
    return as<U16>(_mm512_maddubs_epi16(as<__m512i>(splat(factors)), as<__m512i>(v)));
  }
  /// Rounded without sign, which doubling shifts out; not saturated.
  [[gnu::always_inline]] static U8 magnitude(Words w) { return nearest_high_bytes({w.even + w.even, w.odd + w.odd}); }
  [[gnu::always_inline]] static U8 finished(U8 magnitude, Words signs) {
    return min_unsigned(magnitude, 0x7e) | (high_bytes(signs) & uint8_t(0x80));
  }
};

}  // namespace
}  // namespace twohop
