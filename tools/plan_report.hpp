// What `twohop plan` prints: candidates and their terms, the choice, borders, bytes out of each node.
#pragma once

#include <string>

#include "plan_setup.hpp"

namespace twohop::cli {

struct PlanReport {
  const PlanSetup* setup = nullptr;
  std::shared_ptr<const Cluster> cluster;
  uint64_t bytes = 0;
  std::vector<Candidate> candidates;  // fastest first
  TunerTable table;                   // of all sizes
};

std::string plan_text(const PlanReport& report, bool explain);
std::string plan_json(const PlanReport& report);
/// Bytes out of the busiest node, per scheme.
std::string ledger_text(const Cluster& cluster, Collective collective, uint64_t bytes);

}  // namespace twohop::cli
