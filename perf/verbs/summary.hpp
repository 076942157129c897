// What may be concluded from the rows? Pairs that differ in a single factor, how much they differ, and what such a
// comparison cannot show, with the evidence that is missing. Pure.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "groups.hpp"
#include "report.hpp"

namespace twohop::verbs_perf {

struct Difference {
  const Factor* factor = nullptr;
  const RowResult *before = nullptr, *after = nullptr;  // the first repeat of each
  double ratio = 0;                                     // of the medians
  double noise = 0;                                     // the larger of the two spreads
  size_t repeats = 0;                                   // the smaller of the two numbers of repeats
  uint64_t retries_before = 0, retries_after = 0;
};

/// For every factor, each configuration with the next one that differs from it in this factor alone.
std::vector<Difference> single_factor_differences(const std::vector<Group>& groups);

/// "x1.85 (beyond the spread of the repeats, 4 %)" and the like.
std::string judgement(const Difference& d);
/// What changing this factor changes with it, and what the ratio does not prove. The first is always there.
std::vector<std::string> missing_evidence(const Difference& d, const RunInfo& info);

std::string summary_text(const std::vector<RowResult>& rows, const RunInfo& info);
nlohmann::json summary_json(const std::vector<RowResult>& rows, const RunInfo& info);

}  // namespace twohop::verbs_perf
