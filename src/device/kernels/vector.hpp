// Vectors of kVectorBytes for the reduction kernels; isa.hpp says how many those are, and includes this.
//
// Everything under kernels/ lives in an anonymous namespace and calls no inline function of the standard library: the
// same source is compiled once per instruction set, and a function that the linker merged across those files could put
// AVX-512 code on the path of a CPU without it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace twohop {
namespace {

template <class T>
struct VecOf {
  typedef T type __attribute__((vector_size(kVectorBytes)));
};
/// kVectorBytes of T: arithmetic, comparison (to an integer mask) and ?: work lane by lane.
template <class T>
using Vec = typename VecOf<T>::type;

using Bytes = Vec<uint8_t>;
using U32 = Vec<uint32_t>;
using U16 = Vec<uint16_t>;
using I16 = Vec<int16_t>;
using I32 = Vec<int32_t>;
using F32 = Vec<float>;

/// The same bits as another type.
template <class To, class From>
[[gnu::always_inline]] inline To as(From v) {
  return (To)v;
}

template <class T>
[[gnu::always_inline]] inline Vec<T> splat(T x) {
  static_assert(T(1) / T(2) == T(0), "integers only: adding to +0 would lose the sign of -0");
  return Vec<T>{} + x;
}

template <class V>
[[gnu::always_inline]] inline V load(const std::byte* p) {
  V v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}
template <class V>
[[gnu::always_inline]] inline void store(std::byte* p, V v) {
  __builtin_memcpy(p, &v, sizeof v);
}

}  // namespace
}  // namespace twohop
