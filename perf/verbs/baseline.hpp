// How do these rows compare with a file that --save-baseline has written? Pure.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "groups.hpp"
#include "report.hpp"

namespace twohop::verbs_perf {

struct BaselineVerdict {
  std::string text;
  size_t slower = 0, compared = 0;  // slower: by more than the tolerance and the spreads
};

/// Each configuration with the baseline's same one, or else with one that differs in a single factor, which is named.
/// Other settings that differ (queue depth, hosts, library ...) are named too: one is the factor that changed, several
/// leave none to name. The error: `baseline` is not such a file.
Result<BaselineVerdict> compare_with_baseline(const nlohmann::json& baseline, const std::vector<RowResult>& rows,
                                              const RunInfo& info, double tolerance_percent);

}  // namespace twohop::verbs_perf
