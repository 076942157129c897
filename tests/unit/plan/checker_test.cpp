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
  }
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
