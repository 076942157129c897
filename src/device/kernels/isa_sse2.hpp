// What the kernels need of SSE2, which every x86-64 has. The same names are in each isa_*.hpp; isa.hpp chooses.
#pragma once

#include <emmintrin.h>

#include <cstddef>
#include <cstdint>

namespace twohop {
namespace {
constexpr size_t kVectorBytes = 16;
}
}  // namespace twohop

#include "device/kernels/vector.hpp"

namespace twohop {
namespace {

[[gnu::always_inline]] inline U32 merge(uint32_t mask, U32 a, U32 b) {
  return (a & mask) | (b & ~mask);
}

[[gnu::always_inline]] inline U32 high_halves(U32 low, U32 high) {
  return merge(0xffff, low >> 16, high);
}

[[gnu::always_inline]] inline U32 low_halves(U32 low, U32 high) {
  return merge(0xffff, low, high << 16);
}

[[gnu::always_inline]] inline U16 increment_above_half(U16 v, U16 x) {
  return v - as<U16>(as<I16>(x ^ 0x8000) > 0);  // signed, since there is no unsigned comparison
}

[[gnu::always_inline]] inline bool any(U32 v, uint32_t mask) {
  const __m128i none = _mm_cmpeq_epi32(as<__m128i>(v & mask), _mm_setzero_si128());
  return _mm_movemask_epi8(none) != 0xffff;
}

[[gnu::always_inline]] inline bool any_nan(F32 a, F32 b) {
  return _mm_movemask_ps(_mm_cmpunord_ps(as<__m128>(a), as<__m128>(b))) != 0;
}

[[gnu::always_inline]] inline bool any_nan(F32 a, F32 b, F32 c, F32 d) {
  const __m128 ab = _mm_cmpunord_ps(as<__m128>(a), as<__m128>(b)), cd = _mm_cmpunord_ps(as<__m128>(c), as<__m128>(d));
  return _mm_movemask_ps(_mm_or_ps(ab, cd)) != 0;
}

}  // namespace
}  // namespace twohop
