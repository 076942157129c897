// Vectors for the reduction kernels: as wide as the instruction set that the including file is compiled for.
//
// Everything under kernels/ lives in an anonymous namespace and calls no inline function of the standard library: the
// same source is compiled once per instruction set, and a function that the linker merged across those files could put
// AVX-512 code on the path of a CPU without it.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace twohop {
namespace {

#if defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)
constexpr size_t kVectorBytes = 64;
#elif defined(__AVX2__)
constexpr size_t kVectorBytes = 32;
#else
constexpr size_t kVectorBytes = 16;  // SSE2, NEON, or plain scalar code where there is neither
#endif

template <class T>
struct VecOf {
  typedef T type __attribute__((vector_size(kVectorBytes)));
};
/// kVectorBytes of T: arithmetic, comparison (to an integer mask) and ?: work lane by lane.
template <class T>
using Vec = typename VecOf<T>::type;

using U32 = Vec<uint32_t>;
using I32 = Vec<int32_t>;
using F32 = Vec<float>;

/// The same bits as another type.
template <class To, class From>
inline To as(From v) {
  return (To)v;
}

template <class T>
inline Vec<T> splat(T x) {
  static_assert(T(1) / T(2) == T(0), "integers only: adding to +0 would lose the sign of -0");
  return Vec<T>{} + x;
}

template <class V>
inline V load(const std::byte* p) {
  V v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}
template <class V>
inline void store(std::byte* p, V v) {
  __builtin_memcpy(p, &v, sizeof v);
}

/// Bits of a where mask is 1, of b where it is 0.
#if defined(__AVX512F__)
[[gnu::always_inline]] inline U32 merge(uint32_t mask, U32 a, U32 b) {  // compilers take two instructions
  constexpr int kSelect = 0xca;
  return as<U32>(_mm512_ternarylogic_epi32(as<__m512i>(splat(mask)), as<__m512i>(a), as<__m512i>(b), kSelect));
}
#else
[[gnu::always_inline]] inline U32 merge(uint32_t mask, U32 a, U32 b) {
  return (a & mask) | (b & ~mask);
}
#endif

/// v + 1 where x > 0x8000, unsigned.
using U16 = Vec<uint16_t>;
#if defined(__AVX512BW__)
[[gnu::always_inline]] inline U16 increment_above_half(U16 v, U16 x) {
  const __mmask32 above = _mm512_cmpgt_epu16_mask(as<__m512i>(x), as<__m512i>(splat(uint16_t(0x8000))));
  return as<U16>(_mm512_mask_add_epi16(as<__m512i>(v), above, as<__m512i>(v), as<__m512i>(splat(uint16_t(1)))));
}
#else
[[gnu::always_inline]] inline U16 increment_above_half(U16 v, U16 x) {
  return v - as<U16>(as<Vec<int16_t> >(x ^ 0x8000) > 0);  // signed, since few CPUs compare unsigned lanes
}
#endif

/// Whether any bit of v & mask is set, and whether any lane of a or b is NaN.
#if defined(__AVX512BW__)
[[gnu::always_inline]] inline bool any(U32 v, uint32_t mask) {
  return _mm512_test_epi32_mask(as<__m512i>(v), as<__m512i>(splat(mask))) != 0;
}
[[gnu::always_inline]] inline bool any_nan(F32 a, F32 b) {
  return _mm512_cmp_ps_mask(as<__m512>(a), as<__m512>(b), _CMP_UNORD_Q) != 0;
}
#elif defined(__AVX2__)
[[gnu::always_inline]] inline bool any(U32 v, uint32_t mask) {
  return _mm256_testz_si256(as<__m256i>(v), as<__m256i>(splat(mask))) == 0;
}
[[gnu::always_inline]] inline bool any_nan(F32 a, F32 b) {
  return _mm256_movemask_ps(_mm256_cmp_ps(as<__m256>(a), as<__m256>(b), _CMP_UNORD_Q)) != 0;
}
#elif defined(__SSE2__)
[[gnu::always_inline]] inline bool any(U32 v, uint32_t mask) {
  const __m128i none = _mm_cmpeq_epi32(as<__m128i>(v & mask), _mm_setzero_si128());
  return _mm_movemask_epi8(none) != 0xffff;
}
[[gnu::always_inline]] inline bool any_nan(F32 a, F32 b) {
  return _mm_movemask_ps(_mm_cmpunord_ps(as<__m128>(a), as<__m128>(b))) != 0;
}
#else
inline bool any(U32 v, uint32_t mask) {
  uint32_t bits = 0;
  for (size_t i = 0; i < kVectorBytes / 4; ++i) bits |= v[i];
  return (bits & mask) != 0;
}
inline bool any_nan(F32 a, F32 b) {
  return any(as<U32>(a != a) | as<U32>(b != b), ~0u);
}
#endif

}  // namespace
}  // namespace twohop
