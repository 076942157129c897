// The end of an integer average: each element divided once, toward zero. Done in place after the reduction, while the
// data is in cache; sums never come here.
#pragma once

#include <cstddef>
#include <cstdint>

namespace twohop {
namespace {

/// In a float F so wide that no quotient of values of T rounds up to an integer, in any rounding mode: v/d < k means
/// v/d <= k - 1/d, a relative gap of 1/(d k), and d k < v + d. A divisor beyond T's range gives less than one anyway.
template <class T, class F>
inline void divide_by_float(T* data, uint64_t divisor, size_t count) {
  const F by = static_cast<F>(divisor);
  for (size_t i = 0; i < count; ++i) data[i] = static_cast<T>(static_cast<F>(data[i]) / by);
}

/// By magnitude, so that divisors beyond T's range are right too.
template <class T>
inline void divide_by_magnitude(T* data, uint64_t divisor, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    const bool negative = data[i] < T(0);
    const auto bits = static_cast<uint64_t>(data[i]);
    const uint64_t quotient = (negative ? 0 - bits : bits) / divisor;
    data[i] = static_cast<T>(negative ? 0 - quotient : quotient);
  }
}

/// divisor > 1.
template <class T>
[[gnu::noinline]] void divide(T* data, uint64_t divisor, size_t count) {
  if constexpr (sizeof(T) == 1) {
    divide_by_float<T, float>(data, divisor, count);
  } else if constexpr (sizeof(T) == 4) {
    divide_by_float<T, double>(data, divisor, count);
  } else {
    divide_by_magnitude(data, divisor, count);
  }
}

}  // namespace
}  // namespace twohop
