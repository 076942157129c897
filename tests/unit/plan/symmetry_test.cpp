// Is what node 0 proves true of the whole cluster? The check by symmetry against the full one, and the sizes that it is
// for.
#include "collectives/plan/check_symmetry.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstdio>

#include "shapes.hpp"

namespace twohop {
namespace {

CheckReport check_by_symmetry(const Cluster& cluster, const std::vector<CheckedCall>& calls,
                              CheckOptions options = {}) {
  options.by_symmetry = true;
  return check(cluster, calls, options);
}

bool treats_nodes_alike(const Algorithm& a, Collective c) {
  for (const char* name : {"two-hop", "two-hop-log", "node-ring", "node-ring-log", "flat"})
    if (a.name == name) return c != Collective::kBroadcast;
  return false;
}

/// An even cluster of at most 64 ranks.
Cluster even_cluster(RandomShape& random) {
  const int nodes = random.pick(2, 12), group = random.pick(1, 64 / nodes > 8 ? 8 : 64 / nodes);
  return cluster_of(std::vector<int>(nodes, group));
}

TEST(Symmetry, ProvesWhatTheFullRunProves) {
  const uint64_t seed = test_seed();
  RandomShape random(seed);
  int compared = 0;
  for (int n = 0; n < test_shapes(300); ++n) {
    const Cluster cluster = even_cluster(random);
    std::vector<CheckedCall> calls;
    for (int i = random.pick(1, 3); i > 0; --i) calls.push_back(random.call(cluster, random.depths(), 3));
    bool alike = true;
    for (const CheckedCall& c : calls) alike &= treats_nodes_alike(*c.algorithm, c.collective);
    const CheckReport one = check_by_symmetry(cluster, calls);
    if (one.fault && one.fault->kind == FaultKind::kAsymmetry) {
      EXPECT_FALSE(alike) << describe(cluster, calls) << text(one);
      continue;  // others may be alike on some clusters, as flat-naive is with one rank a node
    }
    const CheckReport all = check(cluster, calls);
    ASSERT_TRUE(!one.fault && !all.fault)
        << "TEST_SEED=" << seed << ": " << describe(cluster, calls) << ": " << text(one) << ", " << text(all);
    EXPECT_EQ(one.steps * cluster.nnodes(), all.steps);
    EXPECT_EQ(one.chunks_out_of_node[0], all.chunks_out_of_node[0]);
    ++compared;
  }
  std::printf("%d shapes compared with the full run\n", compared);
}

/// Takes a step out of the program of the same local rank on every node.
CheckOptions without(const Cluster& cluster, const StepId& id) {
  CheckOptions options;
  options.mutate = [&cluster, id](int, int rank, Program& p) {
    if (cluster.local_of[rank] == id.rank)
      p.lanes[id.lane].erase(p.lanes[id.lane].begin() + static_cast<std::ptrdiff_t>(id.step));
  };
  return options;
}

TEST(Symmetry, FindsTheFaultsThatTheFullRunFinds) {
  int found = 0;
  for (const std::vector<int>& sizes : {std::vector{2, 2, 2}, {1, 1, 1, 1, 1}})
    for (const char* name : {"two-hop", "two-hop-log", "node-ring", "flat"}) {
      const Cluster cluster = cluster_of(sizes);
      const CheckedCall call{find_algorithm(name), Collective::kAllReduce, 0, {1, 2, 2}, 5};
      for (int local = 0; local < cluster.local_size(0); ++local) {
        const Program p = program_of(cluster, call, local);
        for (size_t lane = 0; lane < p.lanes.size(); ++lane)
          for (size_t step = 0; step < p.lanes[lane].size(); ++step) {
            const CheckOptions planted = without(cluster, {local, lane, step});
            const CheckReport one = check_by_symmetry(cluster, {call}, planted), all = check(cluster, {call}, planted);
            ASSERT_EQ(one.fault.has_value() && one.fault->kind != FaultKind::kAsymmetry, all.fault.has_value())
                << describe(cluster, {call}) << " without rank " << local << " lane " << lane << " step " << step
                << ": " << text(one) << ", " << text(all);
            found += all.fault.has_value();
          }
      }
    }
  std::printf("%d planted faults found by both\n", found);
  EXPECT_GT(found, 300);
}

TEST(Symmetry, IsNotAssumed) {
  const auto refused = [](const Cluster& cluster, const char* name, Collective c) {
    const CheckReport r = check_by_symmetry(cluster, {{find_algorithm(name), c, 0, {2, 2, 2}, 1}});
    return r.fault && r.fault->kind == FaultKind::kAsymmetry;
  };
  EXPECT_TRUE(refused(cluster_of({2, 1}), "two-hop", Collective::kAllReduce));
  EXPECT_TRUE(refused(make_cluster(std::vector{0, 1, 0, 1}), "two-hop", Collective::kAllReduce));
  EXPECT_TRUE(refused(cluster_of({2, 2}), "two-hop", Collective::kBroadcast));
  EXPECT_TRUE(refused(cluster_of({2, 2, 2}), "two-hop-tree", Collective::kAllReduce));
  EXPECT_TRUE(refused(cluster_of({2, 2}), "one-shot", Collective::kAllReduce));
  EXPECT_FALSE(refused(cluster_of({2, 2}), "two-hop", Collective::kAllReduce));
}

/// A program of another node that differs from its like on node 0 in one thing.
TEST(Symmetry, SeesAnyDifferenceBetweenPrograms) {
  const Cluster cluster = cluster_of({2, 2, 2});
  const CheckedCall call{find_algorithm("two-hop"), Collective::kAllReduce, 0, {1, 2, 2}, 1};
  const Rotation rotation(cluster);
  const int chunks = call.algorithm->frame({&cluster, call.collective, 0, call.depths}).chunks;
  const Program here = program_of(cluster, call, 1), there = program_of(cluster, call, 3);
  const auto difference = [&](const Program& changed, bool in_order = true) {
    return rotation.difference(here, changed, 1, chunks,
                               [&, n = 0](const Step&, size_t) mutable { return in_order ? ++n : --n; });
  };
  EXPECT_EQ(difference(there), nullptr);
  EXPECT_NE(difference(there, false), nullptr);
  for (size_t lane = 0; lane < there.lanes.size(); ++lane)
    for (size_t step = 0; step < there.lanes[lane].size(); ++step) {
      Program p = there;
      ++p.lanes[lane][step].target.offset;
      EXPECT_NE(difference(p), nullptr);
      p = there;
      p.lanes[lane].erase(p.lanes[lane].begin() + static_cast<std::ptrdiff_t>(step));
      EXPECT_NE(difference(p), nullptr);
      if (there.lanes[lane][step].srcs.empty()) continue;
      p = there;
      ++p.lanes[lane][step].chunk;
      EXPECT_NE(difference(p), nullptr);
      p = there;
      ++p.lanes[lane][step].srcs[0].index.offset;
      EXPECT_NE(difference(p), nullptr);
    }
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;  // g++, which is what the sanitizer presets use
#else
constexpr bool kSanitized = false;
#endif

class ThousandNodes : public testing::TestWithParam<const Algorithm*> {};

TEST_P(ThousandNodes, OfEightRanksAreProvedInTwoGigabytes) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer's own memory is not what is measured";
  const Algorithm& a = *GetParam();
  if (a.name == "flat-naive")
    GTEST_SKIP() << "where its ring comes round it goes on at another index: it is symmetric by ranks, not by nodes";
  const Cluster cluster = cluster_of(std::vector<int>(1000, 8));
  for (const Collective c : kCollectives) {
    if (!a.supports(cluster, c)) continue;
    CheckOptions options;
    options.by_symmetry = treats_nodes_alike(a, c);
    const std::vector<CheckedCall> calls{{&a, c, 0, {1, 2, 2}, 1}};
    const CheckReport r = check(cluster, calls, options);
    EXPECT_FALSE(r.fault) << a.name << " " << collective_name(c) << ": " << text(r);
    const double bytes = static_cast<double>(r.chunks_out_of_node[1]) / static_cast<double>(r.chunks_of_buffer);
    EXPECT_NEAR(bytes, a.bytes_out_per_byte({&cluster, c, 0, {}}, 1), 1e-9) << collective_name(c);
  }
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  std::printf("%s: at most %ld MiB so far\n", std::string(a.name).c_str(), usage.ru_maxrss >> 10);
  EXPECT_LT(usage.ru_maxrss, 2L << 20);
}

INSTANTIATE_TEST_SUITE_P(Algorithms, ThousandNodes, testing::ValuesIn(all_algorithms()), algorithm_name);

}  // namespace
}  // namespace twohop
