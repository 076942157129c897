// What a reduction must give, computed the slow and obvious way: one element at a time, in double and wide integers,
// rounding by looking for the nearest value among all patterns of the type. Shares no code with the kernels.
#pragma once

#include <cstdint>
#include <vector>

#include "device/reduce.hpp"

namespace twohop::reference {

/// A floating type's facts. `top` is the first magnitude pattern that is not finite.
struct SmallFloat {
  int exp_bits, mant_bits;
  uint32_t top, canonical_nan, largest_result;  // magnitude patterns
  bool has_infinity;
};
const SmallFloat& small_float(twohopDataType_t type);  // fp16, bf16, fp8

/// The value of a pattern; NaN for NaN patterns.
double decode(twohopDataType_t type, uint64_t pattern);
/// To nearest, ties to even; saturating as the type does. For float32 and narrower: value is a float32 value.
uint64_t encode(twohopDataType_t type, double value);

/// Element patterns as unsigned integers, whatever the type.
uint64_t get(twohopDataType_t type, const void* data, size_t i);
void put(twohopDataType_t type, void* data, size_t i, uint64_t pattern);

/// The reduction of one element of each source; scales may be null.
uint64_t reduce(twohopDataType_t type, MathOp op, const std::vector<uint64_t>& elements, const Scalar* scales,
                uint64_t divisor);

}  // namespace twohop::reference
