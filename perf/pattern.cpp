// Tables of inputs and results, and the comparison with them.
#include "pattern.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace twohop::perf {
namespace {

constexpr size_t kPeriod = 65521;  // the largest prime below 2^16: shares no factor with any chunk size
constexpr size_t kStride = 7919;   // by how much each block's starting point in the table moves on

uint64_t mix(uint64_t rank, uint64_t index) {
  uint64_t h = rank * 0x9e3779b97f4a7c15u + index * 0xd1b54a32d192ed03u + 0x2545f4914f6cdd1du;
  h = (h ^ (h >> 31)) * 0xbf58476d1ce4e5b9u;
  h = (h ^ (h >> 29)) * 0x94d049bb133111ebu;
  return h ^ (h >> 32);
}

/// Calls fn(element, table index, length) for runs of elements [first, first + count) that are contiguous in the table;
/// elements are numbered from `first`.
template <class Fn>
void for_each_run(size_t first, size_t count, size_t period, Fn fn) {
  for (size_t i = first; i < first + count;) {
    size_t table = (i % kPeriod + i / kPeriod % kPeriod * kStride) % kPeriod;
    size_t length = std::min({first + count - i, kPeriod - i % kPeriod, period - table});
    fn(i - first, table, length);
    i += length;
  }
}

bool is_power_of_two(int n) {
  return (n & (n - 1)) == 0;
}

}  // namespace

Pattern::Pattern(const TypeInfo& type, Op op, int nranks, size_t max_count)
    : type_(type), op_(op), nranks_(nranks), period_(max_count <= kPeriod ? std::max<size_t>(1, max_count) : kPeriod) {
  expected_.resize(period_ * type.bytes);
  type.floating ? build_floats() : build_integers();
}

uint64_t Pattern::integer_input(int rank, size_t index) const {
  uint64_t value = mix(static_cast<uint64_t>(rank), index);
  return op_ == Op::kProd ? value | 1 : value;  // a product of even numbers soon wraps to 0, which would hide faults
}

void Pattern::build_integers() {
  auto wrap = [&](uint64_t v) {
    unsigned char element[8];
    encode_int(type_, v, element);
    return decode_int(type_, element);
  };
  auto less = [&](int64_t a, int64_t b) {
    return type_.is_signed ? a < b : static_cast<uint64_t>(a) < static_cast<uint64_t>(b);
  };
  for (size_t i = 0; i < period_; ++i) {
    int64_t total = 0;
    for (int r = 0; r < nranks_; ++r) {
      uint64_t v = integer_input(r, i);
      int64_t x = wrap(op_ == Op::kMulSum ? v * static_cast<uint64_t>(scalar(r)) : v);
      if (r == 0)
        total = x;
      else if (op_ == Op::kProd)
        total = wrap(static_cast<uint64_t>(total) * static_cast<uint64_t>(x));
      else if (op_ == Op::kMax)
        total = less(total, x) ? x : total;
      else if (op_ == Op::kMin)
        total = less(x, total) ? x : total;
      else
        total = wrap(static_cast<uint64_t>(total) + static_cast<uint64_t>(x));
    }
    // avg divides the wrapped sum once, toward zero.
    if (op_ == Op::kAvg)
      total = type_.is_signed ? total / nranks_
                              : static_cast<int64_t>(static_cast<uint64_t>(total) / static_cast<uint64_t>(nranks_));
    encode_int(type_, static_cast<uint64_t>(total), &expected_[i * type_.bytes]);
  }
}

double Pattern::float_input(int rank, size_t index) const {
  uint64_t h = mix(static_cast<uint64_t>(rank), index);
  // Which ranks are active turns with the element, so that every rank matters somewhere.
  bool active = (static_cast<size_t>(rank) + index) % static_cast<size_t>(nranks_) < static_cast<size_t>(active_);
  if (op_ == Op::kProd) {
    double magnitude = active ? std::ldexp(1.0, static_cast<int>(h % 3) - 1) : 1.0;  // 1/2, 1 or 2
    return (h >> 32) & 1 ? -magnitude : magnitude;
  }
  if (!active) return 0;
  auto span = static_cast<uint64_t>(2 * limit_ + 1);
  return unit_ * (static_cast<double>(h % span) - limit_);
}

void Pattern::build_floats() {
  double n = nranks_, heaviest = op_ == Op::kMulSum ? 2 : 1;
  // Integers up to 2^significand_bits are exact; 2^20 is plenty where the type holds more.
  double exact = std::ldexp(1.0, std::min(type_.significand_bits, 20));
  active_ = nranks_;
  limit_ = exact;
  if (op_ == Op::kSum || op_ == Op::kMulSum || op_ == Op::kAvg) {
    active_ = static_cast<int>(std::min(n, exact / heaviest));
    limit_ = std::floor(exact / heaviest / active_);
  }
  if (op_ == Op::kProd) active_ = std::min(nranks_, -type_.least_exponent - type_.significand_bits + 1);
  // avg scales by 1/n first: multiples of n then become integers again.
  bool multiples = op_ == Op::kAvg && !is_power_of_two(nranks_) && n <= exact;
  if (multiples) {
    unit_ = n;
    limit_ = std::floor(exact / n);
  }
  bool tolerant = op_ == Op::kAvg && (!is_power_of_two(nranks_) || nranks_ > 64);
  // Multiples of n, scaled and summed, round back to integers in the narrow types; only what float32 loses shows, where
  // contributions cancel.
  int bits = multiples && type_.significand_bits <= 11 ? 24 : type_.significand_bits;
  if (tolerant) reference_.resize(period_), tolerance_.resize(period_);
  for (size_t i = 0; i < period_; ++i) {
    double total = 0, magnitude = 0;
    for (int r = 0; r < nranks_; ++r) {
      double x = float_input(r, i) * (op_ == Op::kMulSum ? scalar(r) : 1);
      magnitude += std::fabs(x);
      if (r == 0)
        total = x;
      else if (op_ == Op::kProd)
        total *= x;
      else if (op_ == Op::kMax)
        total = std::max(total, x);
      else if (op_ == Op::kMin)
        total = std::min(total, x);
      else
        total += x;
    }
    if (op_ == Op::kAvg) total /= n;
    if (!tolerant) {
      encode(type_, total, &expected_[i * type_.bytes]);
      continue;
    }
    // Tolerance: n scalings and n - 1 additions, each rounding by at most half a unit in the last place of a partial
    // result, none of which exceeds the mean magnitude; below the normal range the unit is the smallest subnormal.
    // The factor n in 1/n is itself rounded once.
    double unit_roundoff = std::ldexp(1.0, -bits);
    reference_[i] = total;
    tolerance_[i] = 2 * n * unit_roundoff * magnitude / n + 2 * n * std::ldexp(1.0, type_.least_exponent - 1);
  }
}

std::vector<unsigned char> Pattern::input_table(int rank, size_t count) const {
  size_t needed = std::min(count, period_);
  std::vector<unsigned char> table(needed * type_.bytes);
  for (size_t i = 0; i < needed; ++i) {
    void* element = &table[i * type_.bytes];
    type_.floating ? encode(type_, float_input(rank, i), element) : encode_int(type_, integer_input(rank, i), element);
  }
  return table;
}

void Pattern::fill_input(int rank, void* dst, size_t count) const {
  auto table = input_table(rank, count);
  auto* out = static_cast<unsigned char*>(dst);
  for_each_run(0, count, period_, [&](size_t i, size_t t, size_t length) {
    std::memcpy(out + i * type_.bytes, &table[t * type_.bytes], length * type_.bytes);
  });
}

bool Pattern::equal(const unsigned char* got, size_t t) const {
  if (!tolerance_.empty()) return std::fabs(decode(type_, got) - reference_[t]) <= tolerance_[t];
  const unsigned char* want = &expected_[t * type_.bytes];
  if (std::memcmp(got, want, type_.bytes) == 0) return true;
  return type_.floating && decode(type_, got) == 0 && decode(type_, want) == 0;  // -0 and +0 are both right
}

uint64_t Pattern::count_wrong_result(const void* got, size_t count, size_t first) const {
  const auto* in = static_cast<const unsigned char*>(got);
  uint64_t wrong = 0;
  for_each_run(first, count, period_, [&](size_t i, size_t t, size_t length) {
    const unsigned char* run = in + i * type_.bytes;
    if (tolerance_.empty() && std::memcmp(run, &expected_[t * type_.bytes], length * type_.bytes) == 0) return;
    for (size_t k = 0; k < length; ++k) wrong += !equal(run + k * type_.bytes, t + k);
  });
  return wrong;
}

uint64_t Pattern::count_wrong_input(int rank, const void* got, size_t count) const {
  auto table = input_table(rank, count);
  const auto* in = static_cast<const unsigned char*>(got);
  uint64_t wrong = 0;
  for_each_run(0, count, period_, [&](size_t i, size_t t, size_t length) {
    const unsigned char* first = in + i * type_.bytes;
    if (std::memcmp(first, &table[t * type_.bytes], length * type_.bytes) == 0) return;
    for (size_t k = 0; k < length; ++k)
      wrong += std::memcmp(first + k * type_.bytes, &table[(t + k) * type_.bytes], type_.bytes) != 0;
  });
  return wrong;
}

}  // namespace twohop::perf
