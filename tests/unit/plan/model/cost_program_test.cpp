// Does one node stand for all only where it may, and does it then give the time of the full run?
#include "collectives/plan/model/cost_program.hpp"

#include <gtest/gtest.h>

#include "unit/plan/model/model_cases.hpp"

namespace twohop {
namespace {

TEST(CostProgram, FoldsTheTwoHopRingOntoOneNode) {
  const auto p = make_cost_program(*find_algorithm("two-hop"), even_cluster(8, 4), Collective::kAllReduce);
  EXPECT_TRUE(p.folded);
  EXPECT_EQ(p.nodes, 1);
  EXPECT_EQ(p.ranks.size(), 4u);
  for (const CostLink& l : p.links) EXPECT_EQ(l.src, l.dst) << "shards stay with their local rank";
}

TEST(CostProgram, DoesNotFoldUnevenClusters) {
  const auto uneven = std::make_shared<Cluster>(cluster_of({4, 4, 4, 3, 4, 4}));
  const auto p = make_cost_program(*find_algorithm("two-hop"), uneven, Collective::kAllReduce);
  EXPECT_FALSE(p.folded);
  EXPECT_EQ(p.nodes, 6);
  EXPECT_EQ(p.ranks.size(), 23u);
}

TEST(CostProgram, DoesNotFoldWhereNodesDiffer) {
  const auto p = make_cost_program(*find_algorithm("two-hop"), even_cluster(8, 2), Collective::kBroadcast);
  EXPECT_FALSE(p.folded) << "the root does what no other node does";
}

TEST(CostProgram, CountsTheStepsOfAllRanks) {
  const auto cluster = even_cluster(6, 2);
  const Algorithm& a = *find_algorithm("two-hop");
  uint64_t steps = 0;
  for (int r = 0; r < cluster->nranks(); ++r)
    for (const auto& lane : a.program({cluster.get(), Collective::kAllReduce, 0, {}}, r).lanes) steps += lane.size();
  EXPECT_EQ(make_cost_program(a, cluster, Collective::kAllReduce, {}, Symmetry::kOff).steps, steps);
  EXPECT_EQ(make_cost_program(a, cluster, Collective::kAllReduce).steps, steps / 6);
}

/// All algorithms and collectives of the table, up to 64 ranks. They differ where the last chunks are short or empty on
/// the node that was walked and not on another, and in who is first where several want a core or rail at one moment.
TEST(CostProgram, FoldedGivesTheTimeOfTheFullRun) {
  int folded = 0;
  for (auto [nodes, group] : {std::pair{4, 1}, {5, 3}, {8, 4}, {16, 2}, {8, 8}, {32, 2}})
    for (Collective collective : kCollectives)
      for (const Algorithm* a : algorithms_for(*even_cluster(nodes, group), collective)) {
        NetworkModel model;
        model.rails = group;
        Predictor one(even_cluster(nodes, group), model, {});
        Predictor all(even_cluster(nodes, group), model, {}, {}, Symmetry::kOff);

        for (uint64_t bytes : {128u * 64 * 15, 2u * 128 * 64 * 15 * 30, 100'000u}) {
          const auto p = one.predict({a, 64 << 10, 2, 64}, collective, bytes);
          const auto q = all.predict({a, 64 << 10, 2, 64}, collective, bytes);
          folded += p.folded;
          EXPECT_FALSE(q.folded);
          EXPECT_FALSE(p.run.stuck || q.run.stuck);
          EXPECT_NEAR(p.time_us / q.time_us, 1, 0.05)
              << a->name << " " << collective_name(collective) << " " << nodes << " x " << group << ", " << bytes;
        }
      }
  EXPECT_GT(folded, 20);
}

TEST(CostProgram, FoldedGivesExactlyTheTimeOfTheFullRunOfARing) {
  for (auto [nodes, group] : {std::pair{4, 1}, {8, 4}, {16, 4}, {64, 1}}) {
    const auto bytes = static_cast<uint64_t>(nodes) * group * 128 * 50;
    double times[2];
    for (Symmetry symmetry : {Symmetry::kAuto, Symmetry::kOff})
      times[symmetry == Symmetry::kOff] =
          Predictor(even_cluster(nodes, group), NetworkModel(), {}, {}, symmetry)
              .predict({find_algorithm("two-hop"), 1 << 20, 1, 64}, Collective::kAllReduce, bytes)
              .time_us;
    EXPECT_NEAR(times[0], times[1], 1e-6 * times[1]) << nodes << " x " << group;
  }
}

}  // namespace
}  // namespace twohop
