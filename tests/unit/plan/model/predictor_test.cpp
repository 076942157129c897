// Is the time of a long call, worked out from a part of its rounds, that of the whole?
#include "collectives/plan/model/predictor.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>

#include "collectives/plan/memory_limits.hpp"
#include "unit/plan/model/model_cases.hpp"

namespace twohop {
namespace {

/// By steps walked: the largest error on the shapes of the test, and bounds for the most and for half of them.
struct Stated {
  uint64_t steps;
  double largest, most, median;  // of 1
};
constexpr Stated kStated[] = {{10'000, 0.1, 0.03, 0.01}, {100'000, 0.05, 0.02, 0.01}};

NetworkModel random_model(RandomShape& random) {
  auto factor = [&] { return std::pow(2.0, random.pick(-6, 6) / 2.0); };
  NetworkModel m;
  for (double NetworkModel::*member :
       {&NetworkModel::copy_gbytes_per_s, &NetworkModel::reduce_gbytes_per_s, &NetworkModel::rail_gbytes_per_s,
        &NetworkModel::latency_us, &NetworkModel::doorbell_us, &NetworkModel::completion_us, &NetworkModel::signal_us})
    m.*member *= factor();
  m.rails = random.pick(1, 4);
  m.rail_gbytes_per_s /= 4;
  return m;
}

/// The same shapes each time: a bound that holds for 99 of 100 shapes is no proof that the hundredth is at fault.
TEST(Predictor, GivesTheTimeOfTheWholeFromAPartOfTheRounds) {
  RandomShape random(1);
  std::vector<double> errors[2];
  for (int i = 0; i < 8; ++i) {
    const auto cluster = std::make_shared<Cluster>(random.cluster(6, 4));
    const NetworkModel model = random_model(random);
    for (const Algorithm* a : algorithms_for(*cluster, Collective::kAllReduce)) {
      Predictor p(cluster, model, {});
      const Choice choice{a, 16u << 10, random.pick(1, 2), 64};
      const auto bytes = static_cast<uint64_t>(random.pick(4 << 20, 24 << 20));
      const auto whole = p.predict(choice, Collective::kAllReduce, bytes, {UINT64_MAX / 2});
      ASSERT_EQ(whole.walked, whole.rounds);
      for (size_t e = 0; e < 2; ++e) {
        const auto part = p.predict(choice, Collective::kAllReduce, bytes, {kStated[e].steps});
        if (part.walked == part.rounds) continue;
        errors[e].push_back(std::abs(part.time_us / whole.time_us - 1));
        EXPECT_LT(errors[e].back(), kStated[e].largest)
            << a->name << " on " << cluster->nnodes() << " nodes, " << cluster->nranks() << " ranks, " << bytes
            << " B, " << part.walked << " of " << part.rounds << " rounds: " << part.time_us << " not " << whole.time_us
            << "\n"
            << format_model(model);
      }
    }
  }
  for (size_t e = 0; e < 2; ++e) {
    ASSERT_GT(errors[e].size(), 10u);
    std::sort(errors[e].begin(), errors[e].end());
    EXPECT_LT(errors[e][errors[e].size() / 2], kStated[e].median);
    EXPECT_LT(errors[e][errors[e].size() * 9 / 10], kStated[e].most);
    std::printf("%zu cells, %.4f largest\n", errors[e].size(), errors[e].back());
  }
}

/// The estimates that the tuner chooses by against walks; what docs/model.md states of them.
TEST(Predictor, EstimatesWhatAWalkComesTo) {
  constexpr double kLargest = 0.25, kMost = 0.03;
  std::vector<double> errors;
  for (const char* name : {"host", "tcp", "loopback", "softnic"})
    for (bool one_machine : {false, true})
      for (auto [nodes, group] : {std::pair{1, 2}, {1, 8}, {2, 1}, {2, 2}, {4, 2}, {3, 4}, {8, 1}}) {
        NetworkModel m = *find_builtin_model(name);
        if (one_machine) m.cores = 2, m.nodes_per_machine = nodes > 1 ? 0 : 1;
        const auto cluster = even_cluster(nodes, group);
        Predictor p(cluster, m, memory_limits(*cluster, {4 << 20, 128 << 10, 4}));
        for (const char* algorithm : {"two-hop", "two-hop-tree", "two-hop-log", "node-ring", "one-shot", "flat"})
          for (uint64_t bytes :
               {uint64_t{4} << 10, uint64_t{64} << 10, uint64_t{256} << 10, uint64_t{4} << 20, uint64_t{64} << 20}) {
            const Choice choice{find_algorithm(algorithm), 128 << 10, 4, 64};
            const double walked = p.predict(choice, Collective::kAllReduce, bytes, {20'000}).time_us;
            errors.push_back(std::abs(p.estimate_us(choice, Collective::kAllReduce, bytes) / walked - 1));
            EXPECT_LT(errors.back(), kLargest) << algorithm << " on " << nodes << " x " << group << ", " << bytes
                                               << " B, " << name << (one_machine ? " on one machine" : "");
          }
      }
  std::sort(errors.begin(), errors.end());
  std::printf("median %.3f, 9 of 10 within %.3f, largest %.3f\n", errors[errors.size() / 2],
              errors[errors.size() * 9 / 10], errors.back());
  EXPECT_LT(errors[errors.size() * 9 / 10], kMost);
}

TEST(Predictor, GrowsWithTheSize) {
  for (const Algorithm* a : algorithms_for(*even_cluster(4, 4), Collective::kAllReduce)) {
    Predictor p(even_cluster(4, 4), NetworkModel(), {});
    double last = 0;
    for (uint64_t bytes = 4096; bytes <= uint64_t{1} << 32; bytes *= 4) {
      const double t = p.predict({a, 64 << 10, 2, 64}, Collective::kAllReduce, bytes).time_us;
      EXPECT_GT(t, last) << a->name << " " << bytes;
      last = t;
    }
  }
}

TEST(Predictor, TakesNothingButItsStartForNothing) {
  for (Collective collective : kCollectives)
    for (const Algorithm* a : algorithms_for(*even_cluster(2, 2), collective)) {
      Predictor p(even_cluster(2, 2), NetworkModel(), {});
      const auto empty = p.predict({a, 64 << 10, 2, 64}, collective, 0);
      EXPECT_FALSE(empty.run.stuck);
      EXPECT_GT(empty.time_us, 0);
      EXPECT_LE(empty.time_us, p.predict({a, 64 << 10, 2, 64}, collective, 8).time_us + 1e-9);
    }
}

TEST(Predictor, CostsAThousandNodesFromOne) {
  Predictor p(even_cluster(1024, 8), NetworkModel(), {});
  const auto run = p.predict({find_algorithm("two-hop"), 128 << 10, 2, 64}, Collective::kAllReduce, 64 << 20);
  EXPECT_TRUE(run.folded);
  EXPECT_GT(run.time_us, 2 * 1023 * NetworkModel().latency_us);
}

}  // namespace
}  // namespace twohop
