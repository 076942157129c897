// What the proofs of the planner share: clusters, random shapes and calls, and texts that name them.
#pragma once

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "collectives/plan/checker.hpp"

namespace twohop {

/// Consecutive ranks share a node; `sizes[i]` ranks on node i.
Cluster cluster_of(const std::vector<int>& sizes);

/// For tests that are run for each algorithm of the table.
std::vector<const Algorithm*> all_algorithms();
std::string algorithm_name(const testing::TestParamInfo<const Algorithm*>& info);

std::string describe(const Cluster& cluster, const std::vector<CheckedCall>& calls);
std::string text(const CheckReport& report);

class RandomShape {
 public:
  explicit RandomShape(uint64_t seed) : rng_(seed) {}
  int pick(int from, int to) { return std::uniform_int_distribution<int>(from, to)(rng_); }
  /// Even or uneven; ranks in blocks, dealt round robin, or shuffled over the nodes.
  Cluster cluster(int max_nodes, int max_group);
  CheckedCall call(const Cluster& cluster, Depths depths, int max_rounds);
  Depths depths() { return {pick(1, 3), pick(2, 5), pick(2, 5)}; }

 private:
  std::vector<int> sizes(int max_nodes, int max_group);
  std::mt19937_64 rng_;
};

/// TEST_SEED, or a random number.
uint64_t test_seed();
/// TEST_SHAPES, or the number that is usual for the test.
int test_shapes(int usual);

}  // namespace twohop
