// How are the library's element types written and read? Names as nccl-tests prints them, and conversions of their
// own: the checker must not share code with what it checks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "twohop/twohop.h"

namespace twohop::perf {

struct TypeInfo {
  const char* name;
  twohopDataType_t type;
  size_t bytes;
  bool floating, is_signed;
  int significand_bits;  // floating: hidden bit included, so integers up to 2^significand_bits are exact
  int exponent_bits;
  int least_exponent;  // floating: the smallest subnormal is 2^least_exponent
};

const std::vector<TypeInfo>& types();
const TypeInfo& type_info(twohopDataType_t type);
const TypeInfo& type_info(const std::string& name);
std::vector<std::string> type_names();

/// nccl-tests' operations: the library's five, and mulsum for twohopRedOpCreatePreMulSum.
enum class Op { kSum, kProd, kMax, kMin, kAvg, kMulSum };
const std::vector<std::string>& op_names();
Op op_of(const std::string& name);

/// Writes a value that the type holds exactly; a floating type only.
void encode(const TypeInfo& type, double value, void* element);
double decode(const TypeInfo& type, const void* element);
/// The same for integer types: `value` is cut to the type's width; decoding extends the sign of signed types.
void encode_int(const TypeInfo& type, uint64_t value, void* element);
int64_t decode_int(const TypeInfo& type, const void* element);

}  // namespace twohop::perf
