// The proofs: every algorithm over a space of shapes, singly and in sequences of calls. TEST_SHAPES in the
// environment sets the number of random shapes (default below), TEST_SEED the seed.
#include "collectives/plan/checker.hpp"

#include <gtest/gtest.h>

#include "collectives/plan/check_rounds.hpp"
#include "shapes.hpp"

namespace twohop {
namespace {

TEST(Checker, ProvesEveryAlgorithmOnSmallEvenClusters) {
  for (const Algorithm& a : algorithms())
    for (Collective c : kCollectives) {
      for (int nodes = 1; nodes <= 4; ++nodes)
        for (int group = 1; group <= 3; ++group)
          for (bool in_place : {false, true}) {
            const Cluster cluster = cluster_of(std::vector<int>(nodes, group));
            if (!a.supports(cluster, c)) continue;
            const std::vector<CheckedCall> calls{{&a, c, nodes * group - 1, {}, 3, in_place}};
            const CheckReport r = check(cluster, calls);
            ASSERT_FALSE(r.fault) << describe(cluster, calls) << ": " << text(r);
          }
    }
}

TEST(Checker, ProvesRandomShapesUnevenOnesIncluded) {
  const uint64_t seed = test_seed();
  RandomShape random(seed);
  for (int n = 0; n < test_shapes(2000); ++n) {
    const Cluster cluster = random.cluster(9, 8);
    const std::vector<CheckedCall> calls{random.call(cluster, random.depths(), cluster.nranks() > 24 ? 2 : 4)};
    const CheckReport r = check(cluster, calls);
    ASSERT_FALSE(r.fault) << "TEST_SEED=" << seed << " shape " << n << ": " << describe(cluster, calls) << ": "
                          << text(r);
  }
}

TEST(Checker, ProvesSequencesOfCallsThatShareWindowsAndLinks) {
  const uint64_t seed = test_seed();
  RandomShape random(seed);
  for (int n = 0; n < test_shapes(1000); ++n) {
    const Cluster cluster = random.cluster(4, 4);
    std::vector<CheckedCall> calls;
    for (int i = random.pick(2, 5); i > 0; --i) calls.push_back(random.call(cluster, random.depths(), 3));
    const CheckReport r = check(cluster, calls);
    ASSERT_FALSE(r.fault) << "TEST_SEED=" << seed << " shape " << n << ": " << describe(cluster, calls) << ": "
                          << text(r);
    // What the transport sizes its queues by: the slots of two calls, those of each parity.
    int slots = 0;
    for (const CheckedCall& c : calls) slots = std::max(slots, c.depths.put_slots);
    EXPECT_LE(r.most_in_flight, 2 * slots) << "TEST_SEED=" << seed << ": " << describe(cluster, calls);
  }
}

/// Rails are crossed by the flat algorithms only, and by links of nodes with fewer ranks than there are rails.
TEST(Checker, ProvesThatRailsAreNotCrossed) {
  const uint64_t seed = test_seed();
  RandomShape random(seed);
  for (int n = 0; n < test_shapes(500); ++n) {
    Cluster cluster = random.cluster(6, 8);
    cluster.rails = random.pick(2, 4);
    const std::vector<CheckedCall> calls{random.call(cluster, random.depths(), 2)};
    const CheckReport r = check(cluster, calls);
    ASSERT_FALSE(r.fault) << "TEST_SEED=" << seed << " shape " << n << ": " << cluster.rails << " rails, "
                          << describe(cluster, calls) << ": " << text(r);
  }
}

TEST(Checker, FindsAPutThatCrossesRails) {
  Algorithm flat = *find_algorithm("flat");
  flat.crosses_rails = false;
  Cluster cluster = cluster_of({2, 2});
  const std::vector<CheckedCall> calls{{&flat, Collective::kAllReduce, 0, {}, 1}};
  EXPECT_FALSE(check(cluster, calls).fault);
  cluster.rails = 2;
  const CheckReport r = check(cluster, calls);
  EXPECT_TRUE(r.fault && r.fault->kind == FaultKind::kRailCrossed) << text(r);
}

/// See check_rounds.hpp for why this covers all numbers of rounds.
TEST(Checker, FindsThatRoundsRepeatSoThatAProofCoversAnyNumber) {
  const uint64_t seed = test_seed();
  RandomShape random(seed);
  CheckOptions options;
  options.digest_rounds = true;
  for (int n = 0; n < test_shapes(300); ++n) {
    const Cluster cluster = random.cluster(5, 4);
    std::vector<CheckedCall> calls{random.call(cluster, random.depths(), 1)};
    calls[0].rounds = 8 * lookback_rounds(calls[0].depths);
    const CheckReport r = check(cluster, calls, options);
    ASSERT_TRUE(!r.fault && rounds_repeat(r.round_digests, calls[0].depths))
        << "TEST_SEED=" << seed << " shape " << n << ": " << describe(cluster, calls) << ": " << text(r);
  }
}

}  // namespace
}  // namespace twohop
