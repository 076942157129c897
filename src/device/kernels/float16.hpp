// float16 by the processor's own conversions (F16C, part of AVX-512 too), or in integer arithmetic where there are
// none.
#pragma once

#include "device/kernels/small_float_sum.hpp"

#if defined(__F16C__)
#include <immintrin.h>
#endif

namespace twohop {
namespace {

#if defined(__F16C__)
#if defined(__AVX512F__)
constexpr __mmask16 kAll = 0xffff;  // the forms without a mask make g++ 12 warn of an uninitialised operand
inline F32 widen_float16(const std::byte* p) {
  return as<F32>(_mm512_maskz_cvtph_ps(kAll, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))));
}
inline void narrow_float16(std::byte* p, F32 x) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                      _mm512_maskz_cvtps_ph(kAll, as<__m512>(x), _MM_FROUND_TO_NEAREST_INT));
}
#else
inline F32 widen_float16(const std::byte* p) {
  return as<F32>(_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
}
inline void narrow_float16(std::byte* p, F32 x) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(as<__m256>(x), _MM_FROUND_TO_NEAREST_INT));
}
#endif

struct Float16 {
  using Acc = F32;
  using Lane = float;
  static constexpr int kParts = 2;
  [[gnu::always_inline]] static void load(const std::byte* p, Acc* acc) {
    acc[0] = widen_float16(p);
    acc[1] = widen_float16(p + kVectorBytes / 2);
  }
  [[gnu::always_inline]] static void store(std::byte* p, const Acc* acc) {
    if (any_nan(acc[0], acc[1])) [[unlikely]] {
      narrow_float16(p, canonical(acc[0]));
      narrow_float16(p + kVectorBytes / 2, canonical(acc[1]));
    } else {
      narrow_float16(p, acc[0]);
      narrow_float16(p + kVectorBytes / 2, acc[1]);
    }
  }
};
using Float16Sum = Float16;
#else
using Float16 = Float16Bits;
using Float16Sum = SmallFloatSum<Float16Bits>;
#endif

}  // namespace
}  // namespace twohop
