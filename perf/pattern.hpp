// What does each rank put in, and what must come out? Inputs that differ by rank and position, the reduction of all
// ranks' inputs, and the comparison of every element with it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "element.hpp"

namespace twohop::perf {

/// Inputs and expected results for one type, operation and number of ranks. Both come from tables of a prime number of
/// elements that successive blocks read from different starting points: filling and checking then run at the speed
/// of memcpy and memcmp, and no displacement of a chunk brings the right values to the wrong place.
///
/// Floating inputs are small integers (powers of two for prod), chosen so that every partial result in any order is
/// exact in the type: those checks allow no difference. The one exception is avg over a number of ranks that is not
/// a power of two: see Tolerance in pattern.cpp.
class Pattern {
 public:
  Pattern(const TypeInfo& type, Op op, int nranks, size_t max_count);  // elements below max_count exist

  void fill_input(int rank, void* dst, size_t count) const;
  /// How many of elements [first, first + count) differ from the reduction over all ranks; got[0] is element `first`.
  uint64_t count_wrong_result(const void* got, size_t count, size_t first = 0) const;
  /// How many differ from what fill_input wrote: a send buffer must stay as it was.
  uint64_t count_wrong_input(int rank, const void* got, size_t count) const;

  /// mulsum's factor of one rank.
  static double scalar(int rank) { return 1 + rank % 2; }

 private:
  std::vector<unsigned char> input_table(int rank, size_t count) const;
  void build_integers();
  void build_floats();
  double float_input(int rank, size_t index) const;
  uint64_t integer_input(int rank, size_t index) const;
  bool equal(const unsigned char* got, size_t table_index) const;

  const TypeInfo& type_;
  Op op_;
  int nranks_;
  size_t period_;  // elements in a table
  // Floating inputs: multiples of unit_ with magnitude up to limit_ * unit_, from `active_` ranks per element.
  double unit_ = 1, limit_ = 1;
  int active_ = 1;
  std::vector<unsigned char> expected_;        // exact results, encoded
  std::vector<double> reference_, tolerance_;  // when a tolerance is needed; else empty
};

}  // namespace twohop::perf
