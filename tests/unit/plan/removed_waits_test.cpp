// Is every missing wait noticed, and is every wait needed? Removes each single Wait, Sent and Arrive of every program
// in turn, in place and out of place. The checker must find a fault; where it finds none, the wait is redundant.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>

#include "shapes.hpp"

namespace twohop {
namespace {

constexpr int kRounds = 5;  // with the smallest depths, so that slots are used again and again

struct Tally {
  int caught = 0;
  int idle = 0;      // the step told its lane nothing that other steps had not told it
  int unneeded = 0;  // what it told was told again before it was needed
  std::string redundant;
};

bool is_wait(StepKind k) {
  return k == StepKind::kWait || k == StepKind::kSent || k == StepKind::kArrive;
}

CheckReport check_without(const StepId& id, const Cluster& cluster, const CheckedCall& call) {
  CheckOptions options;
  options.mutate = [&](int, int rank, Program& p) {
    if (rank == id.rank) p.lanes[id.lane].erase(p.lanes[id.lane].begin() + static_cast<std::ptrdiff_t>(id.step));
  };
  return check(cluster, {call}, options);
}

std::vector<StepId> waits_of(const Cluster& cluster, const CheckedCall& call) {
  std::vector<StepId> waits;
  for (int rank = 0; rank < cluster.nranks(); ++rank) {
    const Program p = call.algorithm->program({&cluster, call.collective, call.root, call.depths}, rank);
    for (size_t lane = 0; lane < p.lanes.size(); ++lane)
      for (size_t step = 0; step < p.lanes[lane].size(); ++step)
        if (is_wait(p.lanes[lane][step].kind)) waits.push_back({rank, lane, step});
  }
  return waits;
}

void remove_each(const Cluster& cluster, const CheckedCall& call, Tally& tally) {
  CheckedCall in_place = call;
  in_place.in_place = true;
  const CheckReport whole = check(cluster, {call});
  ASSERT_FALSE(whole.fault) << describe(cluster, {call}) << ": " << text(whole);
  for (const StepId& id : waits_of(cluster, call)) {
    const bool idle = std::find(whole.idle_steps.begin(), whole.idle_steps.end(), id) != whole.idle_steps.end();
    const bool caught = check_without(id, cluster, call).fault || check_without(id, cluster, in_place).fault;
    EXPECT_FALSE(idle && caught) << "an idle step was needed: " << describe(cluster, {call});
    if (!caught)
      tally.redundant += describe(cluster, {call}) + ": rank " + std::to_string(id.rank) + " lane " +
                         std::to_string(id.lane) + " step " + std::to_string(id.step) + "\n";
    ++(caught ? tally.caught : idle ? tally.idle : tally.unneeded);
  }
}

Tally remove_each(const Algorithm& a, int k) {
  Tally tally;
  for (const std::vector<int>& sizes : {std::vector{2, 2}, {2, 2, 2}, {1, 3, 2}, {4}, {2, 1, 1, 2, 1}})
    for (Collective c : kCollectives) {
      const Cluster cluster = cluster_of(sizes);
      if (a.supports(cluster, c)) remove_each(cluster, {&a, c, 1, {k, 2, 2}, kRounds}, tally);
    }
  std::printf("%s, %d chunks a put: %d removals caught, %d idle, %d unneeded\n", std::string(a.name).c_str(), k,
              tally.caught, tally.idle, tally.unneeded);
  return tally;
}

class RemovedWaits : public testing::TestWithParam<const Algorithm*> {};

/// What goes round a ring of local ranks brings news of its own beginning, so that a wait may be repeated there in some
/// clusters. All are needed in others: see the test on a node of two.
bool repeats_waits(const Algorithm& a) {
  return a.name.starts_with("node-ring");
}

TEST_P(RemovedWaits, AreAllCaught) {
  const Tally t = remove_each(*GetParam(), 1);
  EXPECT_GT(t.caught, 25);  // one-shot, on one of the clusters only, has 28
  EXPECT_LE(t.idle + t.unneeded, repeats_waits(*GetParam()) ? t.caught / 20 : 0) << t.redundant;
}

TEST_P(RemovedWaits, AreAllCaughtOnNodesOfTwo) {
  Tally tally;
  for (int nodes : {1, 2, 5})
    for (Collective c : kCollectives) {
      const Cluster cluster = cluster_of(std::vector<int>(nodes, 2));
      if (GetParam()->supports(cluster, c)) remove_each(cluster, {GetParam(), c, 1, {1, 2, 2}, kRounds}, tally);
    }
  EXPECT_EQ(tally.idle + tally.unneeded, 0) << tally.redundant;
}

/// With several chunks in a put, what a chunk waits for may be told again before it is needed, but never in vain.
TEST_P(RemovedWaits, AreCaughtOrRepeatedForTheFurtherChunksOfAPut) {
  const Tally t = remove_each(*GetParam(), 2);
  EXPECT_GT(t.caught, 50);
  EXPECT_LE(t.idle, repeats_waits(*GetParam()) ? t.caught / 20 : 0) << t.redundant;
  EXPECT_LT(t.unneeded, t.caught / 4) << t.redundant;
}

INSTANTIATE_TEST_SUITE_P(Algorithms, RemovedWaits, testing::ValuesIn(all_algorithms()), algorithm_name);

}  // namespace
}  // namespace twohop
