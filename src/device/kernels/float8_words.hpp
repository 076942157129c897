// fp8 as float16: a vector of bytes becomes the float16 of its even and of its odd elements, and is rounded back from
// them, all 64 at once.
//
// Both types have
//   widen(v, even, odd)    exact
//   rounded(even, odd)     to nearest even, saturating; of what is not NaN
#pragma once

#include "device/kernels/float16_pair.hpp"
#include "device/kernels/formats.hpp"
#include "device/reduce_types.hpp"

namespace twohop {
namespace {

using U8 = Vec<uint8_t>;

/// The bytes of each word of v trade places, where `where` has a bit for the byte; elsewhere bytes are those of `other`.
[[gnu::always_inline]] inline U8 swapped_bytes(U16 other, uint64_t where, U16 v) {
  const __m512i swap = _mm512_set4_epi32(0x0e0f0c0d, 0x0a0b0809, 0x06070405, 0x02030001);
  return as<U8>(_mm512_mask_shuffle_epi8(as<__m512i>(other), where, as<__m512i>(v), swap));
}
/// The high bytes of both, those of `even` in the low places.
[[gnu::always_inline]] inline U8 high_bytes(U16 even, U16 odd) {
  return swapped_bytes(odd, 0x5555555555555555, even);
}
[[gnu::always_inline]] inline U8 low_bytes(U16 even, U16 odd) {
  return swapped_bytes(even, 0xaaaaaaaaaaaaaaaa, odd);
}

/// kept + 1 where what was cut off is more than half of its last bit, or is just half and that bit is odd.
[[gnu::always_inline]] inline U8 to_nearest_even(U8 kept, U8 cut) {
  const U8 sticky = cut | (kept & uint8_t(1));
  const __mmask64 up = _mm512_cmpgt_epu8_mask(as<__m512i>(sticky), as<__m512i>(splat(uint8_t(0x80))));
  return as<U8>(_mm512_mask_add_epi8(as<__m512i>(kept), up, as<__m512i>(kept), as<__m512i>(splat(uint8_t(1)))));
}

[[gnu::always_inline]] inline U8 min_unsigned(U8 a, uint8_t b) {
  return as<U8>(_mm512_min_epu8(as<__m512i>(a), as<__m512i>(splat(b))));
}
[[gnu::always_inline]] inline U8 min_signed(U8 a, uint8_t b) {
  return as<U8>(_mm512_min_epi8(as<__m512i>(a), as<__m512i>(splat(b))));
}

/// The high byte of a float16.
struct Float8e5m2Words {
  using General = Float8e5m2;
  /// Sums of kMaxReduceSources need up to 22 - -16 bits, more than float32 has.
  static constexpr bool kExactSums = false;

  [[gnu::always_inline]] static void widen(U16 v, U16& even, U16& odd) {
    even = v << 8;
    odd = v & uint16_t(0xff00);
  }
  [[gnu::always_inline]] static U8 rounded(U16 even, U16 odd) {
    const U8 nearest = to_nearest_even(high_bytes(even, odd), low_bytes(even, odd));
    return min_unsigned(min_signed(nearest, 0x7b), 0xfb);  // the positive ones, then the negative ones
  }
};

/// A float16 without its top exponent bit and its last seven bits; as such 2^8 times too small, which does not matter:
/// no sum gets near float16's ends. Its NaN is taken for 480: the caller has to look for it (special()).
struct Float8e4m3Words {
  using General = Float8e4m3;
  /// Multiples of 2^-9, the sum of 64 of which is below 2^15.
  static constexpr bool kExactSums = true;
  static_assert(kMaxReduceSources * 448 * 512 < 1 << 24);

  [[gnu::always_inline]] static void widen(U16 v, U16& even, U16& odd) {
    constexpr uint16_t kKept = 0xbf80;  // all but the second sign bit that the product has
    even = times(v, 0x0080) & kKept;
    odd = times(v, 0x8000) & kKept;
  }
  [[gnu::always_inline]] static U8 rounded(U16 even, U16 odd) {
    const U16 even_magnitude = even + even, odd_magnitude = odd + odd;  // the sign is shifted out
    const U8 nearest =
        to_nearest_even(high_bytes(even_magnitude, odd_magnitude), low_bytes(even_magnitude, odd_magnitude));
    return min_unsigned(nearest, 0x7e) | (high_bytes(even, odd) & uint8_t(0x80));
  }

  static constexpr uint32_t kSigns = 0x80808080;
  /// Sets the sign bit of each element that is NaN: to add one turns it over only where all bits below it are set.
  [[gnu::always_inline]] static U32 special(const std::byte* p) {
    const U8 v = twohop::load<U8>(p);
    return as<U32>(v ^ (v + uint8_t(1)));
  }

 private:
  /// The signed bytes of each word times 128 and 0, or 0 and 128.
  [[gnu::always_inline]] static U16 times(U16 v, uint16_t factors) {
    return as<U16>(_mm512_maddubs_epi16(as<__m512i>(splat(factors)), as<__m512i>(v)));
  }
};

}  // namespace
}  // namespace twohop
