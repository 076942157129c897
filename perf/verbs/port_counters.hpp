// What have the ports' own counters moved by during a row? Read before and after, never in its time.
#pragma once

#include <vector>

#include "result.hpp"
#include "row_end.hpp"

namespace twohop::verbs_perf {

/// The counters of a row's ports at one moment.
struct CounterShot {
  explicit CounterShot(const RowEnd& end);
  std::vector<verbs::HwCounters> counters, hw_counters;  // by port
};

/// Fills counters, guids and retries of the result.
void add_counters(const RowEnd& end, const CounterShot& before, const CounterShot& after, EndResult& result);
/// Those that stand for trouble, in words.
std::string trouble(const RowEnd& end, const CounterShot& before, const CounterShot& after);

}  // namespace twohop::verbs_perf
