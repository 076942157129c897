// float16 by the processor's own conversions, or in integer arithmetic where it has none.
#pragma once

#include "device/kernels/small_float_sum.hpp"

#ifdef __AVX512F__
#include "device/kernels/float16_quarters.hpp"
#endif
#ifdef __AVX512FP16__
#include "device/kernels/float16_pair.hpp"
#endif

namespace twohop {
namespace {

#if defined(__AVX2__) && defined(__F16C__)
struct Float16 {
  using Acc = F32;
  using Lane = float;
  static constexpr int kParts = 2;
  [[gnu::always_inline]] static void load(const std::byte* p, Acc* acc) {
    acc[0] = widen_float16(p);
    acc[1] = widen_float16(p + kVectorBytes / 2);
  }
  static constexpr bool kStoresNoNan = true;
  [[gnu::always_inline]] static void store(std::byte* p, const Acc* acc) {
    narrow_float16(p, acc[0]);
    narrow_float16(p + kVectorBytes / 2, acc[1]);
  }
};
#if defined(__AVX512FP16__)
struct Float16Sum : Float16Quarters {
  using ForTwo = Float16Pair;
};
#elif defined(__AVX512F__)
struct Float16Sum : Float16Quarters {
  using ForTwo = Float16;
};
#else
using Float16Sum = Float16;
#endif
#else
using Float16 = Float16Bits;
using Float16Sum = SmallFloatSum<Float16Bits>;
#endif

}  // namespace
}  // namespace twohop
