#include "topology/rank_rails.hpp"

#include <gtest/gtest.h>

#include "unit/topology/machines.hpp"

namespace twohop::topology {
namespace {

/// `count` switches on two NUMA nodes, each with a GPU (or none) and a port.
Machine switches(int count, bool gpus) {
  MachineBuilder b;
  b.numa();
  b.numa();
  for (int i = 0; i < count; ++i) {
    const int root = b.root(i * 2 / count);
    if (gpus) b.gpu(b.device(root));
    b.net(b.device(root));
  }
  return b.m;
}

std::vector<RankPlace> place(const Machine& m, std::vector<int> cpu_numas) {
  return place_ranks(m, choose(m), cpu_numas);
}

std::vector<int> own(const RankPlace& p) {
  return {p.rails.begin(), p.rails.begin() + static_cast<long>(p.own)};
}

TEST(RankRails, AreThoseOfTheRanksGpu) {
  const auto places = place(switches(4, true), std::vector<int>(4, kNone));
  for (int l = 0; l < 4; ++l) {
    EXPECT_EQ(places[l].gpu, l);
    EXPECT_EQ(own(places[l]), std::vector<int>{l});
    EXPECT_EQ(places[l].rails.size(), 4u);
    EXPECT_EQ(places[l].numa, l / 2);
  }
}

TEST(RankRails, AreAllUsedByFewerRanksThanGpus) {
  const auto places = place(switches(4, true), {kNone, kNone});
  EXPECT_EQ(own(places[0]), (std::vector<int>{0, 2}));
  EXPECT_EQ(own(places[1]), (std::vector<int>{1, 3}));
  EXPECT_EQ(own(place(switches(4, true), {kNone})[0]), (std::vector<int>{0, 1, 2, 3}));
}

TEST(RankRails, AreSharedByMoreRanksThanGpus) {
  const auto places = place(switches(2, true), std::vector<int>(4, kNone));
  EXPECT_EQ(own(places[2]), std::vector<int>{0});
  EXPECT_EQ(places[3].gpu, 1);
}

TEST(RankRails, GoByTheCpusWhereThereIsNoGpu) {
  const auto places = place(switches(4, false), {1, 0});
  EXPECT_EQ(own(places[0]), (std::vector<int>{2, 3}));
  EXPECT_EQ(places[0].numa, 1);
  EXPECT_EQ(own(places[1]), (std::vector<int>{0, 1}));
}

TEST(RankRails, AreEvenlySpreadWhereNothingIsKnown) {
  const auto places = place(switches(4, false), {kNone, kNone});
  EXPECT_EQ(places[0].own, 2u);
  EXPECT_EQ(places[1].own, 2u);
  EXPECT_EQ(own(place(switches(4, false), {kNone})[0]).size(), 4u);
}

TEST(RankRails, OfAMachineWithoutPortsAreNone) {
  const auto places = place(Machine{}, {kNone, kNone});
  ASSERT_EQ(places.size(), 2u);
  EXPECT_TRUE(places[0].rails.empty());
  EXPECT_EQ(places[0].numa, kNone);
  EXPECT_TRUE(place(Machine{}, {}).empty());
}

}  // namespace
}  // namespace twohop::topology
