// The words that reduction kernels and their callers share. Light on purpose: the translation units that are compiled
// for one instruction set include this and nothing that brings inline functions of the rest of the program.
#pragma once

#include <cstddef>
#include <cstdint>

#include "twohop/twohop.h"

namespace twohop {

enum class MathOp : uint8_t { kSum, kProd, kMax, kMin };
constexpr int kMathOps = 4;

/// A scale factor, in the member its type uses: f64 for float64, f32 for all other floating types, bits (wrapping) for
/// integers.
union Scalar {
  uint64_t bits;
  float f32;
  double f64;
};

constexpr int kMaxReduceSources = 64;

/// dst may be exactly one of the sources; no other overlap. `scales` is null (all one) or one per source.
/// nsrcs 1..kMaxReduceSources; count in elements, 0 allowed; pointers aligned to the element.
using ReduceFn = void (*)(void* dst, const void* const* srcs, int nsrcs, const Scalar* scales, uint64_t divisor,
                          size_t count);

/// Indexed by twohopDataType_t and MathOp.
struct KernelTable {
  ReduceFn kernel[TWOHOP_NUM_DATATYPES][kMathOps];
};

/// One instruction set each; null when this build has none for it (another processor family, an old compiler).
const KernelTable* scalar_kernels();
const KernelTable* avx2_kernels();
const KernelTable* avx512_kernels();
const KernelTable* avx512fp16_kernels();

}  // namespace twohop
