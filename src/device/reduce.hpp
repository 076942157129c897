// Element math: n-ary reductions of every type and operation, in one pass, with equal bits from every instruction set.
//
// dst[i] = fold(op, scale_0 * src_0[i], scale_1 * src_1[i], ...), left to right. 8- and 16-bit floats are widened to
// float32, folded there and rounded once, to nearest even (fp8 saturates to the largest finite value; fp16 and bf16
// overflow to infinity). min/max ignore NaN unless all are NaN, and hold -0 < +0. A NaN result is the type's canonical
// quiet NaN. Integers wrap. `divisor` > 1 (integer average) divides the wrapped result once, toward zero, in the
// element type.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/result.hpp"
#include "device/reduce_types.hpp"

namespace twohop {

struct ElementType {
  size_t bytes;      // a power of two
  const char* name;  // as nccl-tests has it
  bool floating;
};
inline constexpr ElementType kElementTypes[TWOHOP_NUM_DATATYPES] = {
    {1, "int8", false},  {1, "uint8", false},   {4, "int32", false},   {4, "uint32", false},
    {8, "int64", false}, {8, "uint64", false},  {2, "half", true},     {4, "float", true},
    {8, "double", true}, {2, "bfloat16", true}, {1, "fp8_e4m3", true}, {1, "fp8_e5m2", true},
};
static_assert(twohopFloat16 == 6 && twohopBfloat16 == 9 && twohopFloat8e5m2 == 11, "rows are in the enum's order");

constexpr size_t type_size(twohopDataType_t type) {
  return kElementTypes[type].bytes;
}
constexpr const char* type_name(twohopDataType_t type) {
  return kElementTypes[type].name;
}
constexpr bool is_floating(twohopDataType_t type) {
  return kElementTypes[type].floating;
}

Scalar one(twohopDataType_t type);
/// The scalar at `element` (one element of `type`, any alignment).
Scalar load_scalar(const void* element, twohopDataType_t type);
/// 1/n for floating types; one for integers (whose average divides at the end instead).
Scalar reciprocal(twohopDataType_t type, uint64_t n);

enum class Isa : uint8_t { kScalar, kAvx2, kAvx512, kAvx512Fp16 };
const char* isa_name(Isa isa);
bool isa_supported(Isa isa);
/// "auto", "scalar", "avx2", "avx512", "avx512fp16" (TWOHOP_REDUCE_ISA); an error when this CPU lacks it.
Result<Isa> choose_isa(const std::string& name);

/// Never null for valid arguments.
ReduceFn reduce_kernel(Isa isa, twohopDataType_t type, MathOp op);

}  // namespace twohop
