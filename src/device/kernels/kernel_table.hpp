// Every type and operation put together: the table of kernels of the instruction set this is compiled for.
#pragma once

#include "device/kernels/divide.hpp"
#include "device/kernels/float16.hpp"
#include "device/kernels/float8.hpp"
#include "device/kernels/formats.hpp"
#include "device/kernels/fp_mode.hpp"
#include "device/kernels/ordered.hpp"
#include "device/kernels/reduce_loops.hpp"

namespace twohop {
namespace {

// What a small float counts as for its size; never computed with.
enum class Bits8 : uint8_t {};
enum class Bits16 : uint16_t {};

/// Plain: the format without scales; Wide: the one to scale in (the same unless min/max can do without arithmetic).
template <class Element, class Plain, class Wide, class Op>
void reduce(void* dst, const void* const* srcs, int nsrcs, const Scalar* scales, uint64_t, size_t count) {
  const DefaultFpMode mode;
  const Sources in{srcs, nsrcs, scales};
  auto* out = static_cast<std::byte*>(dst);
  if (scales == nullptr) {
    reduce_plain<Plain, Op>(out, in, count * sizeof(Element));
  } else {
    reduce_pass<Wide, Op, 0, true>(out, in, count * sizeof(Element));
  }
}

template <class Element, class Format, class Op>
void reduce_integers(void* dst, const void* const* srcs, int nsrcs, const Scalar* scales, uint64_t divisor,
                     size_t count) {
  reduce<Element, Format, Format, Op>(dst, srcs, nsrcs, scales, divisor, count);
  if (divisor > 1) divide(static_cast<Element*>(dst), divisor, count);
}

using Row = ReduceFn[kMathOps];

template <class T>
constexpr void fill_integers(Row& row) {
  using Wrapping = Integer<Unsigned<T>>;
  row[int(MathOp::kSum)] = reduce_integers<T, Wrapping, Sum>;
  row[int(MathOp::kProd)] = reduce_integers<T, Wrapping, Prod>;
  row[int(MathOp::kMax)] = reduce_integers<T, Integer<T>, Extreme<true>>;
  row[int(MathOp::kMin)] = reduce_integers<T, Integer<T>, Extreme<false>>;
}

template <class Element, class Format, class SumFormat, class OrderedMax, class OrderedMin>
constexpr void fill_floats(Row& row) {
  row[int(MathOp::kSum)] = reduce<Element, SumFormat, Format, Sum>;
  row[int(MathOp::kProd)] = reduce<Element, Format, Format, Prod>;
  row[int(MathOp::kMax)] = reduce<Element, OrderedMax, Format, Extreme<true>>;
  row[int(MathOp::kMin)] = reduce<Element, OrderedMin, Format, Extreme<false>>;
}

constexpr KernelTable make_table() {
  KernelTable t{};
  fill_integers<int8_t>(t.kernel[twohopInt8]);
  fill_integers<uint8_t>(t.kernel[twohopUint8]);
  fill_integers<int32_t>(t.kernel[twohopInt32]);
  fill_integers<uint32_t>(t.kernel[twohopUint32]);
  fill_integers<int64_t>(t.kernel[twohopInt64]);
  fill_integers<uint64_t>(t.kernel[twohopUint64]);
  fill_floats<Bits16, Float16, Float16Sum, OrderedFloat16<true>, OrderedFloat16<false>>(t.kernel[twohopFloat16]);
  fill_floats<float, Float32, Float32, OrderedFloat32<true>, OrderedFloat32<false>>(t.kernel[twohopFloat32]);
  fill_floats<double, Float64, Float64, OrderedFloat64<true>, OrderedFloat64<false>>(t.kernel[twohopFloat64]);
  fill_floats<Bits16, Bfloat16, Bfloat16, OrderedBfloat16<true>, OrderedBfloat16<false>>(t.kernel[twohopBfloat16]);
  fill_floats<Bits8, Float8e4m3, Float8e4m3Sum, OrderedFloat8e4m3<true>, OrderedFloat8e4m3<false>>(
      t.kernel[twohopFloat8e4m3]);
  fill_floats<Bits8, Float8e5m2, Float8e5m2Sum, OrderedFloat8e5m2<true>, OrderedFloat8e5m2<false>>(
      t.kernel[twohopFloat8e5m2]);
  return t;
}

constexpr KernelTable kKernels = make_table();

}  // namespace
}  // namespace twohop
