// The ledger: what leaves each node is what Algorithm::bytes_out_per_byte and the formulas say.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "shapes.hpp"

namespace twohop {
namespace {

/// Compares, for each node, the chunks of a proof with the formula. Void chunks, of the blocks of ranks that smaller
/// nodes do not have, are not part of the buffer.
void expect_formula(const Cluster& cluster, const CheckedCall& call) {
  const CheckReport r = check(cluster, {call});
  ASSERT_FALSE(r.fault) << describe(cluster, {call}) << ": " << text(r);
  double buffer = static_cast<double>(r.chunks_of_buffer);
  if (call.collective == Collective::kReduceScatter || call.collective == Collective::kAllGather)
    buffer = buffer * cluster.nranks() / (cluster.nnodes() * cluster.max_local_size());
  const Request request{&cluster, call.collective, call.root, call.depths};
  for (int node = 0; node < cluster.nnodes(); ++node)
    EXPECT_NEAR(static_cast<double>(r.chunks_out_of_node[node]) / buffer,
                call.algorithm->bytes_out_per_byte(request, node), 1e-9)
        << describe(cluster, {call}) << ", node " << node;
}

double formula(const char* algorithm, const Cluster& c, Collective collective = Collective::kAllReduce) {
  return busiest_bytes_out_per_byte(*find_algorithm(algorithm), {&c, collective, 0, {}});
}

TEST(BytesOut, EqualTheFormulaOnAnyCluster) {
  const uint64_t seed = test_seed();
  RandomShape random(seed);
  for (int n = 0; n < test_shapes(300); ++n) {
    const Cluster c = random.cluster(6, 4);
    const CheckedCall call = random.call(c, random.depths(), 2);
    SCOPED_TRACE("TEST_SEED=" + std::to_string(seed));
    expect_formula(c, call);
  }
}

TEST(BytesOut, EqualTheFormulaForEveryCollectiveOnEvenClusters) {
  for (int nodes = 1; nodes <= 9; ++nodes)
    for (int group : {1, 2, 4}) {
      const Cluster c = cluster_of(std::vector<int>(nodes, group));
      for (Collective collective : kCollectives)
        for (const Algorithm& a : algorithms()) {
          if (!a.supports(c, collective)) continue;
          const CheckedCall call{&a, collective, nodes * group / 2, {2, 3, 3}, 1};
          expect_formula(c, call);
        }
    }
}

TEST(BytesOut, FollowTheArithmeticOfTheSchemes) {
  for (int nodes = 2; nodes <= 9; ++nodes)
    for (int group = 1; group <= 8; ++group) {
      const Cluster c = cluster_of(std::vector<int>(nodes, group));
      const double n = nodes * group;
      EXPECT_NEAR(formula("two-hop", c), 2.0 * (nodes - 1) / nodes, 1e-12);
      EXPECT_NEAR(formula("two-hop", c, Collective::kReduceScatter), 1.0 * (nodes - 1) / nodes, 1e-12);
      EXPECT_NEAR(formula("two-hop", c, Collective::kAllGather), 1.0 * (nodes - 1) / nodes, 1e-12);
      EXPECT_NEAR(formula("two-hop", c, Collective::kBroadcast), 1, 1e-12);
      EXPECT_NEAR(formula("two-hop-log", c), 2.0 * (nodes - 1) / nodes, 1e-12);
      EXPECT_NEAR(formula("two-hop-log", c, Collective::kReduceScatter), 1.0 * (nodes - 1) / nodes, 1e-12);
      EXPECT_NEAR(formula("two-hop-log", c, Collective::kAllGather), 1.0 * (nodes - 1) / nodes, 1e-12);
      EXPECT_NEAR(formula("two-hop-tree", c), nodes < 3 ? 1 : nodes == 3 ? 1.5 : 2, 1e-12);
      if ((nodes & (nodes - 1)) == 0) {
        EXPECT_NEAR(formula("one-shot", c), group * std::log2(nodes), 1e-12);
      }
      EXPECT_NEAR(formula("flat", c), 2 * (n - 1) / n, 1e-12);
      EXPECT_NEAR(formula("flat-naive", c), group * 2 * (n - 1) / n, 1e-12);
    }
}

TEST(BytesOut, AreNoneOnOneNode) {
  const Cluster c = cluster_of({5});
  for (const Algorithm& a : algorithms())
    EXPECT_EQ(busiest_bytes_out_per_byte(a, {&c, Collective::kAllReduce, 0, {}}), 0) << a.name;
}

TEST(BytesOut, KeepTheLedgerOfEightNodesOfEight) {
  const Cluster c = cluster_of(std::vector<int>(8, 8));
  constexpr double kMegabytes = 64;
  EXPECT_NEAR(kMegabytes * formula("flat-naive", c), 1008, 1e-9);
  EXPECT_NEAR(kMegabytes * formula("flat", c), 126, 1e-9);
  EXPECT_NEAR(kMegabytes * formula("two-hop", c), 112, 1e-9);
}

}  // namespace
}  // namespace twohop
