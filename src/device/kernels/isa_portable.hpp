// What the kernels need of any other processor: the compiler makes of these vectors what it has. The same names are in
// each isa_*.hpp; isa.hpp chooses.
#pragma once

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
  uint32_t bits = 0;
  for (size_t i = 0; i < kVectorBytes / sizeof(uint32_t); ++i) bits |= v[i];
  return (bits & mask) != 0;
}

[[gnu::always_inline]] inline bool any_nan(F32 a, F32 b) {
  return any(as<U32>(a != a) | as<U32>(b != b), ~0u);
}

[[gnu::always_inline]] inline bool any_nan(F32 a, F32 b, F32 c, F32 d) {
  return any_nan(a, b) || any_nan(c, d);
}

}  // namespace
}  // namespace twohop
