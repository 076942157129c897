// Is a program that sends from the user's memory right wherever a rank is alone on its node, and does it stage less?
#include "collectives/plan/direct.hpp"

#include <gtest/gtest.h>

#include "shapes.hpp"

namespace twohop {
namespace {

int staging_steps(const Program& p) {
  int count = 0;
  for (const auto& lane : p.lanes)
    for (const Step& s : lane)
      count += (s.kind == StepKind::kCopy || s.kind == StepKind::kReduce) && s.dst.space == Space::kWindow &&
               s.srcs.size() == 1 && s.srcs[0].space == Space::kInput;
  return count;
}

int puts_from_input(const Program& p) {
  int count = 0;
  for (const auto& lane : p.lanes)
    for (const Step& s : lane)
      for (const Ref& r : s.srcs) count += s.kind == StepKind::kPut && r.space == Space::kInput;
  return count;
}

Program direct_program(const Algorithm& a, const Cluster& cluster, Collective c, int rank) {
  const Request request{&cluster, c, 0, {}};
  return without_staging(a.program(request, rank), rank, a.frame(request).chunks);
}

TEST(Direct, TwoHopAndFlatSendFromTheInput) {
  const Cluster cluster = cluster_of({1, 1, 1, 1});
  for (const char* name : {"two-hop", "flat"})
    for (Collective c : {Collective::kAllReduce, Collective::kAllGather}) {
      const Algorithm& a = *find_algorithm(name);
      if (!a.supports(cluster, c)) continue;
      const Program p = direct_program(a, cluster, c, 1);
      EXPECT_EQ(staging_steps(p), 0) << name << " " << collective_name(c);
      EXPECT_GT(puts_from_input(p), 0) << name << " " << collective_name(c);
      EXPECT_GT(staging_steps(a.program({&cluster, c, 0, {}}, 1)), 0) << name;
    }
}

/// Some of the ranks that are alone on their nodes send directly.
std::vector<bool> some_alone(RandomShape& random, const Cluster& cluster) {
  std::vector<bool> direct(cluster.nranks());
  for (int r = 0; r < cluster.nranks(); ++r) direct[r] = cluster.peers_of(r).size() == 1 && random.pick(0, 3) > 0;
  return direct;
}

TEST(Direct, IsProvedForEveryAlgorithmWithOneRankPerNode) {
  for (const Algorithm& a : algorithms())
    for (Collective c : kCollectives)
      for (int nodes = 1; nodes <= 6; ++nodes)
        for (bool in_place : {false, true}) {
          const Cluster cluster = cluster_of(std::vector<int>(nodes, 1));
          if (!a.supports(cluster, c) || !a.can_be_direct) continue;
          CheckedCall call{&a, c, nodes - 1, {}, 3, in_place};
          call.direct.assign(nodes, true);
          const CheckReport r = check(cluster, {call});
          ASSERT_FALSE(r.fault) << describe(cluster, {call}) << ": " << text(r);
        }
}

TEST(Direct, IsProvedBesideStagedRanksOnRandomShapesAndInSequences) {
  const uint64_t seed = test_seed();
  RandomShape random(seed);
  for (int n = 0; n < test_shapes(600); ++n) {
    Cluster cluster = random.cluster(6, random.pick(0, 1) ? 1 : 3);
    std::vector<CheckedCall> calls;
    for (int i = random.pick(1, 4); i > 0; --i) {
      calls.push_back(random.call(cluster, random.depths(), 3));
      if (random.pick(0, 3) > 0 && calls.back().algorithm->can_be_direct)
        calls.back().direct = some_alone(random, cluster);
    }
    const CheckReport r = check(cluster, calls);
    ASSERT_FALSE(r.fault) << "TEST_SEED=" << seed << " shape " << n << ": " << describe(cluster, calls) << ": "
                          << text(r);
  }
}

/// The wait that makes it right in place is needed: without it the checker objects.
TEST(Direct, WouldOverwriteWhatIsBeingSentWithoutItsWaits) {
  const Cluster cluster = cluster_of({1, 1, 1});
  CheckedCall call{find_algorithm("two-hop"), Collective::kAllReduce, 0, {}, 3, true};
  call.direct.assign(3, true);
  CheckOptions options;
  options.mutate = [](int, int, Program& p) {
    std::erase_if(p.lanes[2], [](const Step& s) { return s.kind == StepKind::kSent; });
  };
  const CheckReport r = check(cluster, {call}, options);
  ASSERT_TRUE(r.fault);
  EXPECT_EQ(r.fault->kind, FaultKind::kOverwrittenBeforeSent) << text(r);
}

/// Which is why one-shot calls in place stage what they register.
TEST(Direct, InputsAreReadOnceByTheirOwnersAndByAllInOneShot) {
  for (const std::vector<int>& sizes : {std::vector<int>{4}, {2}, {2, 3}, {8, 8}, {1, 3}}) {
    const Cluster cluster = cluster_of(sizes);
    for (const Algorithm& a : algorithms())
      for (Collective c : {Collective::kAllReduce, Collective::kReduceScatter}) {
        if (!a.supports(cluster, c)) continue;
        const bool once = a.name != "one-shot" || cluster.min_local_size() == 1;  // there one rank of a node folds
        for (int rank = 0; rank < cluster.nranks(); ++rank)
          EXPECT_EQ(reads_inputs_once(a, {&cluster, c, 0, {}}, rank), once)
              << a.name << " " << collective_name(c) << " rank " << rank;
      }
  }
}

}  // namespace
}  // namespace twohop
