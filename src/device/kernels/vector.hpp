// Vectors for the reduction kernels: as wide as the instruction set that the including file is compiled for.
//
// Everything under kernels/ lives in an anonymous namespace and calls no inline function of the standard library: the
// same source is compiled once per instruction set, and a function that the linker merged across those files could put
// AVX-512 code on the path of a CPU without it.
#pragma once

#include <cstddef>
#include <cstdint>

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

}  // namespace
}  // namespace twohop
