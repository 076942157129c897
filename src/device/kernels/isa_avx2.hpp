// What the kernels need of AVX2 and F16C. The same names are in each isa_*.hpp; isa.hpp chooses.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace twohop {
namespace {
constexpr size_t kVectorBytes = 32;
}
}  // namespace twohop

#include "device/kernels/without_masks.hpp"

namespace twohop {
namespace {

[[gnu::always_inline]] inline bool any(U32 v, uint32_t mask) {
  return _mm256_testz_si256(as<__m256i>(v), as<__m256i>(splat(mask))) == 0;
}

[[gnu::always_inline]] inline bool any_nan(F32 a, F32 b) {
  return _mm256_movemask_ps(_mm256_cmp_ps(as<__m256>(a), as<__m256>(b), _CMP_UNORD_Q)) != 0;
}

[[gnu::always_inline]] inline bool any_nan(F32 a, F32 b, F32 c, F32 d) {
  const __m256 ab = _mm256_cmp_ps(as<__m256>(a), as<__m256>(b), _CMP_UNORD_Q);
  const __m256 cd = _mm256_cmp_ps(as<__m256>(c), as<__m256>(d), _CMP_UNORD_Q);
  return _mm256_movemask_ps(_mm256_or_ps(ab, cd)) != 0;
}

[[gnu::always_inline]] inline F32 widen_float16(const std::byte* p) {
  return as<F32>(_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
}

[[gnu::always_inline]] inline void narrow_float16(std::byte* p, F32 x) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(as<__m256>(x), _MM_FROUND_TO_NEAREST_INT));
}

}  // namespace
}  // namespace twohop
