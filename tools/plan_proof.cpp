// See plan_proof.hpp.
#include "plan_proof.hpp"

#include <fmt/format.h>

#include "collectives/plan/checker.hpp"

namespace twohop::cli {
namespace {

constexpr int kAlwaysRankByRank = 256;  // ranks
constexpr int kRounds = 2;

/// Of all ranks, about: programs of different ranks differ little in length.
uint64_t steps_of(const Cluster& cluster, const CheckedCall& call) {
  uint64_t steps = 0;
  for (int rank : {0, cluster.nranks() / 2, cluster.nranks() - 1}) {
    uint64_t own = 0;
    const Request request{&cluster, call.collective, call.root, call.depths};
    for (const auto& lane : call.algorithm->program(request, rank).lanes) own += lane.size();
    steps = std::max(steps, own);
  }
  return steps * static_cast<uint64_t>(cluster.nranks()) * static_cast<uint64_t>(call.rounds);
}

ShapeProof told(const CheckReport& report, const Algorithm& a, const char* how) {
  if (report.fault)
    return {false, fmt::format("{}: {}: {}", a.name, fault_name(report.fault->kind), report.fault->text)};
  return {true, fmt::format("checked: {}, {}, {} steps: every chunk summed once, no hazard, no deadlock\n", a.name, how,
                            report.steps)};
}

}  // namespace

ShapeProof prove_shape(const Cluster& cluster, const Algorithm& a, Collective collective, uint64_t most_steps) {
  const std::vector<CheckedCall> call{{&a, collective, 0, {}, kRounds, false}};
  if (cluster.nranks() <= kAlwaysRankByRank) return told(check(cluster, call), a, "rank by rank");
  CheckOptions options;
  options.by_symmetry = true;
  const CheckReport report = check(cluster, call, options);
  if (!report.fault || report.fault->kind != FaultKind::kAsymmetry) return told(report, a, "node 0 for all");
  if (const uint64_t steps = steps_of(cluster, call[0]); steps > most_steps)
    return {false,
            fmt::format("{}: not checked: {} ranks would take {} steps, more than the {} that are run, and node 0 "
                        "cannot stand for all ({}); try fewer --nodes",
                        a.name, cluster.nranks(), steps, most_steps, report.fault->text)};
  return told(check(cluster, call), a, "rank by rank");
}

}  // namespace twohop::cli
