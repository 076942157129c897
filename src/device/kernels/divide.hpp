// The end of an integer average: each element divided once, toward zero. Done in place after the reduction, while the
// data is in cache; sums never come here.
#pragma once

#include <cstddef>
#include <cstdint>

namespace twohop {
namespace {

/// Word: unsigned, at least as wide as T; divisor > 1. By magnitude, so that any divisor is right, beyond T's range
/// too.
template <class T, class Word>
inline void divide_words(T* data, Word divisor, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    const bool negative = data[i] < T(0);
    const Word bits = static_cast<Word>(data[i]);
    const Word quotient = (negative ? Word(0) - bits : bits) / divisor;
    data[i] = static_cast<T>(negative ? Word(0) - quotient : quotient);
  }
}

template <class T>
[[gnu::noinline]] void divide(T* data, uint64_t divisor, size_t count) {
  if (sizeof(T) <= 4 && divisor <= UINT32_MAX) {
    divide_words<T, uint32_t>(data, static_cast<uint32_t>(divisor), count);  // half the time of a 64-bit division
  } else {
    divide_words<T, uint64_t>(data, divisor, count);
  }
}

}  // namespace
}  // namespace twohop
