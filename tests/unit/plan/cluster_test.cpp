// How ranks are grouped into nodes, and that schedules do not care where ranks sit.
#include "collectives/plan/cluster.hpp"

#include <gtest/gtest.h>

#include <array>

#include "shapes.hpp"

namespace twohop {
namespace {

TEST(Cluster, NumbersNodesByTheirLowestRank) {
  const Cluster c = make_cluster(std::array{70, -3, 70, 5, -3, 5, 5});
  EXPECT_EQ(c.node_of, (std::vector{0, 1, 0, 2, 1, 2, 2}));
  EXPECT_EQ(c.local_of, (std::vector{0, 0, 1, 0, 1, 1, 2}));
  EXPECT_EQ(c.nodes, (std::vector<std::vector<int>>{{0, 2}, {1, 4}, {3, 5, 6}}));
  EXPECT_EQ(c.nranks(), 7);
  EXPECT_EQ(c.nnodes(), 3);
  EXPECT_EQ(c.max_local_size(), 3);
  EXPECT_EQ(c.peers_of(4), (std::vector{1, 4}));
}

TEST(Cluster, DependsOnWhichKeysAreEqualOnly) {
  const Cluster a = make_cluster(std::array{9, 1, 9, 4}), b = make_cluster(std::array{0, 100, 0, -100});
  EXPECT_EQ(a.node_of, b.node_of);
  EXPECT_EQ(a.local_of, b.local_of);
  EXPECT_EQ(a.nodes, b.nodes);
}

TEST(Cluster, GivesShardsThatANodeHasNoRankForToRanksNearTheSameRail) {
  Cluster c = make_cluster(std::array{0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 2});
  const auto owners = [&](int node) {
    std::vector<int> ranks;
    for (int shard = 0; shard < 8; ++shard) ranks.push_back(c.local_owner(node, shard));
    return ranks;
  };
  EXPECT_EQ(owners(1), (std::vector{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(owners(0), (std::vector{0, 1, 2, 0, 1, 2, 0, 1}));
  c.rails = 2;
  EXPECT_EQ(owners(1), (std::vector{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(owners(0), (std::vector{0, 1, 2, 1, 0, 1, 2, 1}));  // even shards: 0 or 2, odd ones: 1
  EXPECT_EQ(owners(2), (std::vector{0, 0, 0, 0, 0, 0, 0, 0}));
}

TEST(Cluster, HoldsOneRankOrNone) {
  EXPECT_EQ(make_cluster(std::array{42}).nodes, (std::vector<std::vector<int>>{{0}}));
  EXPECT_EQ(make_cluster({}).nranks(), 0);
  EXPECT_EQ(make_cluster({}).max_local_size(), 0);
}

TEST(Cluster, MayDealRanksRoundRobinOverNodes) {
  for (const std::vector<int>& key :
       {std::vector{0, 1, 0, 1}, {0, 1, 2, 0, 1, 2, 0, 1, 2}, {0, 1, 2, 1, 2, 1}, {0, 1, 1, 0, 0, 1, 2}}) {
    const Cluster cluster = make_cluster(key);
    for (const Algorithm& a : algorithms())
      for (Collective c : kCollectives) {
        if (!a.supports(cluster, c)) continue;
        const std::vector<CheckedCall> calls{{&a, c, cluster.nranks() - 1, {2, 2, 2}, 3}};
        const CheckReport r = check(cluster, calls);
        EXPECT_FALSE(r.fault) << describe(cluster, calls) << ": " << text(r);
      }
  }
}

TEST(RailsByIndex, AreWhatTheRanksOwnRailsSay) {
  using Rails = std::vector<std::vector<int>>;
  const Cluster four = make_cluster(std::vector<int>{0, 0, 0, 0});
  EXPECT_EQ(rails_by_index(four, Rails{{0}, {1}, {2}, {3}}), 4);
  EXPECT_EQ(rails_by_index(four, Rails{{3}, {2}, {1}, {0}}), 4) << "any order, so it be the same on all nodes";
  EXPECT_EQ(rails_by_index(four, Rails{{0}, {1}, {0}, {1}}), 2);
  EXPECT_EQ(rails_by_index(four, Rails{{0, 4}, {1, 5}, {2, 6}, {3, 7}}), 4) << "two rails a rank";
  EXPECT_EQ(rails_by_index(four, Rails{{0}, {0}, {1}, {1}}), 1) << "near by halves, not modulo";
  EXPECT_EQ(rails_by_index(four, Rails{{0, 1}, {0, 1}, {0, 1}, {0, 1}}), 1) << "all use all";
  EXPECT_EQ(rails_by_index(four, Rails{{}, {}, {}, {}}), 1) << "the network has none";
  const Cluster uneven = make_cluster(std::vector<int>{0, 0, 1});
  EXPECT_EQ(rails_by_index(uneven, Rails{{0}, {1}, {0}}), 2);
  EXPECT_EQ(rails_by_index(uneven, Rails{{0}, {1}, {1}}), 1) << "the same index, another rail";
}

}  // namespace
}  // namespace twohop
