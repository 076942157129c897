// Is every missing wait noticed, and is every wait needed? Removes each single Wait, Sent and Arrive of every program
// in turn, in place and out of place. The checker must find a fault; where it finds none, the wait is redundant, and
// there are no more of those than is written down below.
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

Tally remove_each(std::string_view algorithm, int k) {
  Tally tally;
  for (const std::vector<int>& sizes : {std::vector{2, 2}, {2, 2, 2}, {1, 3, 2}, {4}})
    for (Collective c : kCollectives) {
      const Algorithm* a = find_algorithm(algorithm);
      const Cluster cluster = cluster_of(sizes);
      if (a->supports(cluster, c)) remove_each(cluster, {a, c, 1, {k, 2, 2}, kRounds}, tally);
    }
  std::printf("%s, %d chunks a put: %d removals caught, %d idle, %d unneeded\n", std::string(algorithm).c_str(), k,
              tally.caught, tally.idle, tally.unneeded);
  return tally;
}

TEST(RemovedWaits, AreAllCaughtInTwoHop) {
  const Tally t = remove_each("two-hop", 1);
  EXPECT_GT(t.caught, 1000);
  EXPECT_EQ(t.idle + t.unneeded, 0) << t.redundant;
}

TEST(RemovedWaits, AreAllCaughtInOneShot) {
  const Tally t = remove_each("one-shot", 1);
  EXPECT_EQ(t.caught, 28);  // every one: 3 for the slot and 4 for the sources, on 4 ranks
  EXPECT_EQ(t.idle + t.unneeded, 0) << t.redundant;
}

/// With several chunks in a put, each chunk waits for what the put's first chunk has waited for already.
TEST(RemovedWaits, AreCaughtOrRepeatedForTheFurtherChunksOfAPut) {
  EXPECT_GT(remove_each("two-hop", 2).caught, 1500);
  EXPECT_GT(remove_each("flat", 2).caught, 450);
  EXPECT_GT(remove_each("flat-naive", 2).caught, 350);
}

TEST(RemovedWaits, AreAllCaughtInFlatRings) {
  for (const char* name : {"flat", "flat-naive"}) {
    const Tally t = remove_each(name, 1);
    EXPECT_GT(t.caught, 300);
    EXPECT_EQ(t.idle, 0) << t.redundant;
    EXPECT_EQ(t.unneeded, 0) << t.redundant;
  }
}

}  // namespace
}  // namespace twohop
