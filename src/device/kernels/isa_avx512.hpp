// What the kernels need of AVX-512 (F, BW, VL, DQ). The same names are in each isa_*.hpp; isa.hpp chooses.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace twohop {
namespace {
constexpr size_t kVectorBytes = 64;
}
}  // namespace twohop

#include "device/kernels/vector.hpp"

namespace twohop {
namespace {

[[gnu::always_inline]] inline Bytes load_first(const std::byte* p, size_t bytes) {
  return as<Bytes>(_mm512_maskz_loadu_epi8(~uint64_t{0} >> (kVectorBytes - bytes), p));
}
[[gnu::always_inline]] inline void store_first(std::byte* p, Bytes v, size_t bytes) {
  _mm512_mask_storeu_epi8(p, ~uint64_t{0} >> (kVectorBytes - bytes), as<__m512i>(v));
}

[[gnu::always_inline]] inline U32 merge(uint32_t mask, U32 a, U32 b) {  // compilers take two instructions
  constexpr int kSelect = 0xca;
  return as<U32>(_mm512_ternarylogic_epi32(as<__m512i>(splat(mask)), as<__m512i>(a), as<__m512i>(b), kSelect));
}

/// The words of each lane of v trade places, where `where` has a bit for the byte; elsewhere bytes are those of
/// `other`.
[[gnu::always_inline]] inline U32 swapped_words(U32 other, uint64_t where, U32 v) {
  const __m512i swap = _mm512_set4_epi32(0x0d0c0f0e, 0x09080b0a, 0x05040706, 0x01000302);
  return as<U32>(_mm512_mask_shuffle_epi8(as<__m512i>(other), where, as<__m512i>(v), swap));
}

[[gnu::always_inline]] inline U32 high_halves(U32 low, U32 high) {
  return swapped_words(high, 0x3333333333333333, low);
}

[[gnu::always_inline]] inline U32 low_halves(U32 low, U32 high) {
  return swapped_words(low, 0xcccccccccccccccc, high);
}

[[gnu::always_inline]] inline U16 increment_above_half(U16 v, U16 x) {
  const __mmask32 above = _mm512_cmpgt_epu16_mask(as<__m512i>(x), as<__m512i>(splat(uint16_t(0x8000))));
  return as<U16>(_mm512_mask_add_epi16(as<__m512i>(v), above, as<__m512i>(v), as<__m512i>(splat(uint16_t(1)))));
}

[[gnu::always_inline]] inline bool any(U32 v, uint32_t mask) {
  return _mm512_test_epi32_mask(as<__m512i>(v), as<__m512i>(splat(mask))) != 0;
}

[[gnu::always_inline]] inline bool any_nan(F32 a, F32 b) {
  return _mm512_cmp_ps_mask(as<__m512>(a), as<__m512>(b), _CMP_UNORD_Q) != 0;
}

[[gnu::always_inline]] inline bool any_nan(F32 a, F32 b, F32 c, F32 d) {
  const __mmask16 ab = _mm512_cmp_ps_mask(as<__m512>(a), as<__m512>(b), _CMP_UNORD_Q);
  const __mmask16 cd = _mm512_cmp_ps_mask(as<__m512>(c), as<__m512>(d), _CMP_UNORD_Q);
  return _mm512_kortestz(ab, cd) == 0;
}

constexpr __mmask16 kAllLanes = 0xffff;  // the forms without a mask make g++ 12 warn of an uninitialised operand

[[gnu::always_inline]] inline F32 widen_float16(const std::byte* p) {
  return as<F32>(_mm512_maskz_cvtph_ps(kAllLanes, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))));
}

[[gnu::always_inline]] inline void narrow_float16(std::byte* p, F32 x) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                      _mm512_maskz_cvtps_ph(kAllLanes, as<__m512>(x), _MM_FROUND_TO_NEAREST_INT));
}

}  // namespace
}  // namespace twohop
