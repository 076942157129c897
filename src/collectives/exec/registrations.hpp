// Which memory of the user's is registered with a communicator? Disjoint ranges, by a number that is never used again.
// What the network knows of them is the endpoint's business.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>

#include "base/result.hpp"

namespace twohop {

/// `what`: registered or deregistered.
Error calls_are_pending(const char* what);

class Registrations {
 public:
  using Range = std::span<std::byte>;

  /// Numbers begin after this one.
  explicit Registrations(uint64_t before_first = 0) : last_number_(before_first) {}

  /// The number of the new range. Errors: it overlaps one that is registered, which is named.
  Result<uint64_t> add(Range range);
  /// Errors: no such number.
  Result<Range> find(uint64_t number) const;
  void remove(uint64_t number);
  /// Lies all of it in one registered range? No allocation.
  bool covers(const void* at, uint64_t bytes) const;
  /// Of the range in which `at` lies. Pre: there is one.
  uint64_t number_of(const void* at) const;

 private:
  struct Entry {
    uint64_t bytes = 0, number = 0;
  };
  std::map<uintptr_t, Entry> by_address_;
  uint64_t last_number_;
};

}  // namespace twohop
