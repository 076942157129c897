// float16 sums of more than two sources on a processor with AVX-512, in registers of 256 bits: instructions of 512 bits
// have two ports, those of 256 bits three. To widen and add 32 elements takes 8 of them, 2.7 cycles, instead of 6 in 3.
#pragma once

#include "device/kernels/isa.hpp"

namespace twohop {
namespace {

struct Float16Quarters {
  using Acc = __m256;
  using Lane = float;
  static constexpr int kParts = 4;
  static constexpr int kUnroll = 2;

  [[gnu::always_inline]] static void load(const std::byte* p, Acc* acc) {
    for (int k = 0; k < kParts; ++k) acc[k] = _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p) + k));
  }
  [[gnu::always_inline]] static void fold(Acc* acc, const Acc* next) {
    for (int k = 0; k < kParts; ++k) acc[k] = _mm256_add_ps(acc[k], next[k]);
  }
  [[gnu::always_inline]] static void store(std::byte* p, const Acc* acc) {
    Acc x[kParts];
    for (int k = 0; k < kParts; ++k) x[k] = acc[k];
    if (any_nan(x)) [[unlikely]]
      for (int k = 0; k < kParts; ++k) x[k] = canonical(x[k]);
    for (int k = 0; k < kParts; ++k)
      _mm_storeu_si128(reinterpret_cast<__m128i*>(p) + k, _mm256_cvtps_ph(x[k], _MM_FROUND_TO_NEAREST_INT));
  }

 private:
  [[gnu::always_inline]] static bool any_nan(const Acc* x) {
    const __mmask8 low = _mm256_cmp_ps_mask(x[0], x[1], _CMP_UNORD_Q);
    const __mmask8 high = _mm256_cmp_ps_mask(x[2], x[3], _CMP_UNORD_Q);
    return _kortestz_mask8_u8(low, high) == 0;
  }
  [[gnu::always_inline]] static Acc canonical(Acc x) {
    const __m256 nan = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fc00000));
    return _mm256_mask_mov_ps(x, _mm256_cmp_ps_mask(x, x, _CMP_UNORD_Q), nan);
  }
};

}  // namespace
}  // namespace twohop
