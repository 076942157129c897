// What instruction sets without masks for lanes and bytes make of plain vectors, alike whatever their length; AVX-512
// has its own. isa.hpp says what each is.
#pragma once

#include "device/kernels/vector.hpp"

namespace twohop {
namespace {

[[gnu::always_inline]] inline Bytes load_first(const std::byte* p, size_t bytes) {
  Bytes v{};
  __builtin_memcpy(&v, p, bytes);
  return v;
}
[[gnu::always_inline]] inline void store_first(std::byte* p, Bytes v, size_t bytes) {
  __builtin_memcpy(p, &v, bytes);
}

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

}  // namespace
}  // namespace twohop
