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

#include "device/kernels/without_masks.hpp"

namespace twohop {
namespace {

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
