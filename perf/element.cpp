// Names, sizes and bit layouts of the element types.
#include "element.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace twohop::perf {

const std::vector<TypeInfo>& types() {
  static const std::vector<TypeInfo> table{
      {"int8", twohopInt8, 1, false, true, 0, 0, 0},           {"uint8", twohopUint8, 1, false, false, 0, 0, 0},
      {"int32", twohopInt32, 4, false, true, 0, 0, 0},         {"uint32", twohopUint32, 4, false, false, 0, 0, 0},
      {"int64", twohopInt64, 8, false, true, 0, 0, 0},         {"uint64", twohopUint64, 8, false, false, 0, 0, 0},
      {"half", twohopFloat16, 2, true, true, 11, 5, -24},      {"float", twohopFloat32, 4, true, true, 24, 8, -149},
      {"double", twohopFloat64, 8, true, true, 53, 11, -1074}, {"bfloat16", twohopBfloat16, 2, true, true, 8, 8, -133},
      {"f8e4m3", twohopFloat8e4m3, 1, true, true, 4, 4, -9},   {"f8e5m2", twohopFloat8e5m2, 1, true, true, 3, 5, -16},
  };
  return table;
}

const TypeInfo& type_info(twohopDataType_t type) {
  return *std::find_if(types().begin(), types().end(), [&](const TypeInfo& t) { return t.type == type; });
}

const TypeInfo& type_info(const std::string& name) {
  return *std::find_if(types().begin(), types().end(), [&](const TypeInfo& t) { return t.name == name; });
}

std::vector<std::string> type_names() {
  std::vector<std::string> names;
  for (const auto& t : types()) names.emplace_back(t.name);
  return names;
}

const std::vector<std::string>& op_names() {
  static const std::vector<std::string> names{"sum", "prod", "max", "min", "avg", "mulsum"};
  return names;
}

Op op_of(const std::string& name) {
  return static_cast<Op>(std::find(op_names().begin(), op_names().end(), name) - op_names().begin());
}

void encode_int(const TypeInfo& type, uint64_t value, void* element) {
  std::memcpy(element, &value, type.bytes);  // little endian, as every host this builds for
}

int64_t decode_int(const TypeInfo& type, const void* element) {
  uint64_t value = 0;
  std::memcpy(&value, element, type.bytes);
  int shift = 64 - static_cast<int>(type.bytes) * 8;
  if (type.is_signed) return static_cast<int64_t>(value << shift) >> shift;
  return static_cast<int64_t>(value);
}

void encode(const TypeInfo& type, double value, void* element) {
  int mantissa_bits = type.significand_bits - 1;
  uint64_t sign = std::signbit(value) ? 1 : 0, exponent_field = 0;
  double magnitude = std::fabs(value);
  // The exponent of the type's smallest normal value; below it the exponent field is 0 and the unit stays the same.
  int least_normal = type.least_exponent + mantissa_bits;
  int exponent = magnitude == 0 ? least_normal : std::max(std::ilogb(magnitude), least_normal);
  auto units = static_cast<uint64_t>(std::ldexp(magnitude, mantissa_bits - exponent));
  if (units >> mantissa_bits) exponent_field = static_cast<uint64_t>(exponent - least_normal) + 1;
  uint64_t mantissa = units & ((uint64_t{1} << mantissa_bits) - 1);
  uint64_t bits = (sign << (type.bytes * 8 - 1)) | (exponent_field << mantissa_bits) | mantissa;
  std::memcpy(element, &bits, type.bytes);
}

double decode(const TypeInfo& type, const void* element) {
  uint64_t bits = 0;
  std::memcpy(&bits, element, type.bytes);
  int mantissa_bits = type.significand_bits - 1;
  uint64_t mantissa = bits & ((uint64_t{1} << mantissa_bits) - 1);
  uint64_t all_ones = (uint64_t{1} << type.exponent_bits) - 1;
  uint64_t field = (bits >> mantissa_bits) & all_ones;
  double sign = (bits >> (type.bytes * 8 - 1)) & 1 ? -1 : 1;
  bool e4m3 = type.type == twohopFloat8e4m3;  // has no infinity, and one NaN pattern per sign
  if (e4m3 && field == all_ones && mantissa == 7) return std::nan("");
  if (!e4m3 && field == all_ones) return mantissa ? std::nan("") : sign * INFINITY;
  uint64_t units = field ? mantissa | (uint64_t{1} << mantissa_bits) : mantissa;
  int exponent = type.least_exponent + (field ? static_cast<int>(field) - 1 : 0);
  return sign * std::ldexp(static_cast<double>(units), exponent);
}

}  // namespace twohop::perf
