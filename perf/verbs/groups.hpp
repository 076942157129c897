// Rows as configurations: the repeats of one are a group, with a median and a spread. Pure.
#pragma once

#include <vector>

#include "result.hpp"

namespace twohop::verbs_perf {

struct Group {
  const RowResult* first = nullptr;  // of its rows; configuration, ports
  size_t repeats = 0;
  double median_mib_per_s = 0;  // of BW average
  double spread = 0;            // (largest - smallest) / median; 0 with one repeat
  uint64_t retries = 0;         // of all repeats
};

/// In the order in which the configurations appear; points into `rows`.
std::vector<Group> group_repeats(const std::vector<RowResult>& rows);

/// The factors in which two configurations differ.
std::vector<const Factor*> differing(const RowSpec& a, const RowSpec& b);

}  // namespace twohop::verbs_perf
