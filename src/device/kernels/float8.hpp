// Which format sums of fp8 are folded in.
#pragma once

#include "device/kernels/small_float_sum.hpp"

#ifdef __AVX512FP16__
#include "device/kernels/float8_bounds.hpp"
#endif

namespace twohop {
namespace {

#ifdef __AVX512FP16__
using Float8e4m3Sum = Float8Bounds<Float8e4m3Words>;
using Float8e5m2Sum = Float8Bounds<Float8e5m2Words>;
#else
using Float8e4m3Sum = SmallFloatSum<Float8e4m3>;
using Float8e5m2Sum = SmallFloatSum<Float8e5m2>;
#endif

}  // namespace
}  // namespace twohop
