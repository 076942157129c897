// The proofs: every algorithm over a space of shapes, singly and in sequences of calls. TWOHOP_TEST_SHAPES in the
// environment sets the number of random shapes (default below), TWOHOP_TEST_SEED the seed.
#include "collectives/plan/checker.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

namespace twohop {
namespace {

constexpr Collective kCollectives[] = {Collective::kAllReduce, Collective::kReduceScatter, Collective::kAllGather,
                                       Collective::kBroadcast};

Cluster cluster_of(const std::vector<int>& sizes) {
  std::vector<int> key;
  for (size_t node = 0; node < sizes.size(); ++node) key.insert(key.end(), sizes[node], static_cast<int>(node));
  return make_cluster(key);
}

std::string describe(const std::vector<int>& sizes, const std::vector<CheckedCall>& calls) {
  std::string s = "nodes";
  for (int g : sizes) s += " " + std::to_string(g);
  for (const CheckedCall& c : calls)
    s += " | " + std::string(c.algorithm->name) + " " + collective_name(c.collective) + " root " +
         std::to_string(c.root) + " k " + std::to_string(c.depths.chunks_per_put) + " blocks " +
         std::to_string(c.depths.blocks) + " put_slots " + std::to_string(c.depths.put_slots) + " rounds " +
         std::to_string(c.rounds) + (c.in_place ? " in place" : "");
  return s;
}

std::string text(const CheckReport& r) {
  return r.fault ? fault_name(r.fault->kind) + (": " + r.fault->text) : "proved";
}

class RandomShape {
 public:
  explicit RandomShape(uint64_t seed) : rng_(seed) {}
  int pick(int from, int to) { return std::uniform_int_distribution<int>(from, to)(rng_); }
  std::vector<int> sizes(int max_nodes, int max_group) {
    std::vector<int> s(pick(1, max_nodes));
    const bool even = pick(0, 1) == 0;
    const int group = pick(1, max_group);
    for (int& g : s) g = even ? group : pick(1, max_group);
    return s;
  }
  CheckedCall call(int nranks, Depths depths, int max_rounds) {
    CheckedCall c;
    do {
      c.algorithm = &algorithms()[pick(0, static_cast<int>(algorithms().size()) - 1)];
      c.collective = kCollectives[pick(0, 3)];
    } while (!c.algorithm->supports(c.collective));
    if (c.collective == Collective::kBroadcast) c.root = pick(0, nranks - 1);
    c.depths = depths;
    c.rounds = pick(1, max_rounds);
    c.in_place = pick(0, 1) == 1;
    return c;
  }
  Depths depths() { return {pick(1, 3), pick(2, 5), pick(2, 5)}; }

 private:
  std::mt19937_64 rng_;
};

uint64_t seed() {
  const char* s = std::getenv("TWOHOP_TEST_SEED");
  return s ? std::strtoull(s, nullptr, 10) : std::random_device{}();
}
int shapes(int standard) {
  const char* s = std::getenv("TWOHOP_TEST_SHAPES");
  return s ? std::atoi(s) : standard;
}

TEST(Checker, ProvesEveryAlgorithmOnSmallEvenClusters) {
  for (const Algorithm& a : algorithms())
    for (Collective c : kCollectives) {
      if (!a.supports(c)) continue;
      for (int nodes = 1; nodes <= 4; ++nodes)
        for (int group = 1; group <= 3; ++group)
          for (bool in_place : {false, true}) {
            const std::vector<int> sizes(nodes, group);
            const std::vector<CheckedCall> calls{{&a, c, nodes * group - 1, {}, 3, in_place}};
            const CheckReport r = check(cluster_of(sizes), calls);
            ASSERT_FALSE(r.fault) << describe(sizes, calls) << ": " << text(r);
          }
    }
}

TEST(Checker, ProvesRandomShapesUnevenOnesIncluded) {
  const uint64_t s = seed();
  RandomShape random(s);
  for (int n = 0; n < shapes(2000); ++n) {
    const auto sizes = random.sizes(9, 8);
    const Cluster cluster = cluster_of(sizes);
    const std::vector<CheckedCall> calls{random.call(cluster.nranks(), random.depths(), cluster.nranks() > 24 ? 2 : 4)};
    const CheckReport r = check(cluster, calls);
    ASSERT_FALSE(r.fault) << "TWOHOP_TEST_SEED=" << s << " shape " << n << ": " << describe(sizes, calls) << ": "
                          << text(r);
  }
}

TEST(Checker, ProvesSequencesOfCallsThatShareWindowsAndLinks) {
  const uint64_t s = seed();
  RandomShape random(s);
  for (int n = 0; n < shapes(1000); ++n) {
    const auto sizes = random.sizes(4, 4);
    const Cluster cluster = cluster_of(sizes);
    std::vector<CheckedCall> calls;
    for (int i = random.pick(2, 5); i > 0; --i) calls.push_back(random.call(cluster.nranks(), random.depths(), 3));
    const CheckReport r = check(cluster, calls);
    ASSERT_FALSE(r.fault) << "TWOHOP_TEST_SEED=" << s << " shape " << n << ": " << describe(sizes, calls) << ": "
                          << text(r);
  }
}

}  // namespace
}  // namespace twohop
