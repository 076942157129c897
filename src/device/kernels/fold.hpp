// The operations on accumulator vectors: what `a op b` and `scale * a` mean. The left operand is the lower source.
#pragma once

#include "device/kernels/isa.hpp"

namespace twohop {
namespace {

template <class T>
constexpr bool kIsFloat = T(1) / T(2) != T(0);

template <class T>
struct UnsignedOf {
  using type = T;
};
template <>
struct UnsignedOf<int8_t> {
  using type = uint8_t;
};
template <>
struct UnsignedOf<int32_t> {
  using type = uint32_t;
};
template <>
struct UnsignedOf<int64_t> {
  using type = uint64_t;
};
template <class T>
using Unsigned = typename UnsignedOf<T>::type;

/// scale * x; integers wrap.
template <class T>
inline Vec<T> scaled(Vec<T> x, T scale) {
  return as<Vec<T>>(as<Vec<Unsigned<T>>>(x) * Unsigned<T>(scale));
}

struct Sum {
  template <class T>
  [[gnu::always_inline]] static Vec<T> fold(Vec<T> a, Vec<T> b) {
    return as<Vec<T>>(as<Vec<Unsigned<T>>>(a) + as<Vec<Unsigned<T>>>(b));
  }
};

struct Prod {
  template <class T>
  [[gnu::always_inline]] static Vec<T> fold(Vec<T> a, Vec<T> b) {
    return as<Vec<T>>(as<Vec<Unsigned<T>>>(a) * as<Vec<Unsigned<T>>>(b));
  }
};

/// Floats get here only with scales; without them they are Ordered integers. NaN loses, -0 < +0.
template <bool kMax>
struct Extreme {
  template <class T>
  [[gnu::always_inline]] static Vec<T> fold(Vec<T> a, Vec<T> b) {
    if constexpr (kIsFloat<T>) {
      return fold_floats(a, b);
    } else {
      return kMax ? (a > b ? a : b) : (a < b ? a : b);
    }
  }

 private:
  template <class V>
  [[gnu::always_inline]] static V fold_floats(V a, V b) {
    const auto equal = a == b;  // the same bits, or zeros whose signs decide
    using Bits = __typeof__(equal);
    const Bits x = as<Bits>(a), y = as<Bits>(b);
    const Bits tie = kMax ? (x & y) : (x | y);
    const Bits winner = kMax ? (a > b ? x : y) : (a < b ? x : y);
    const Bits ordered = equal ? tie : winner;
    const Bits without_a = a == a ? ordered : y;
    return as<V>(b == b ? without_a : x);
  }
};

}  // namespace
}  // namespace twohop
