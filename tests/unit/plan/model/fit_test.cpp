// Does a fit find a model again that explains the times of a known one, and others besides?
#include "collectives/plan/model/fit.hpp"

#include <gtest/gtest.h>

#include "unit/plan/model/model_cases.hpp"

namespace twohop {
namespace {

std::vector<MeasuredCall> calls_by(const NetworkModel& truth, std::initializer_list<uint64_t> sizes) {
  std::vector<MeasuredCall> calls;
  for (const auto& cluster : {even_cluster(1, 4), even_cluster(2, 2)})
    for (uint64_t bytes : sizes)
      for (const char* name : {"two-hop", "flat"}) {
        MeasuredCall c{cluster, {find_algorithm(name), 128 << 10, 2, 64}, Collective::kAllReduce, bytes, 0};
        c.time_us = Predictor(cluster, truth, {}).predict(c.choice, c.collective, bytes).time_us;
        calls.push_back(c);
      }
  return calls;
}

TEST(Fit, FindsAModelThatExplainsTheTimes) {
  using M = NetworkModel;
  M truth = *find_builtin_model("tcp");
  truth.cores = 2;
  truth.nodes_per_machine = 0;
  truth.switch_us = 11;
  truth.rail_gbytes_per_s = 0.4;
  truth.latency_us = 60;
  truth.call_us = 3;
  M start = *find_builtin_model("tcp");
  start.cores = 2;
  start.nodes_per_machine = 0;
  FitOptions options;
  options.members = {&M::switch_us, &M::rail_gbytes_per_s, &M::latency_us, &M::call_us};
  const auto seen = calls_by(truth, {8, 65536, 4 << 20}), others = calls_by(truth, {4096, 1 << 20, 16 << 20});
  const M found = fit_model({start}, {}, seen, options);
  EXPECT_GT(prediction_error(start, {}, others), 0.2);
  EXPECT_LT(prediction_error(found, {}, seen), 0.05);
  EXPECT_LT(prediction_error(found, {}, others), 0.1);
  EXPECT_EQ(found.copy_gbytes_per_s, start.copy_gbytes_per_s) << "it was not to be changed";
}

TEST(Fit, DoesNotTakeASlowWireForCopying) {
  using M = NetworkModel;
  M truth = *find_builtin_model("softnic");
  truth.cores = 2;
  truth.nodes_per_machine = 0;
  truth.rail_gbytes_per_s = 0.1;
  M start = truth;  // as if it were a fast wire behind slow copies, with about the same times on 2 nodes
  start.rail_gbytes_per_s = 10;
  start.send_gbytes_per_s = 0.2;
  M slow_wire = truth;
  slow_wire.rail_gbytes_per_s = 0.05;
  FitOptions options;
  options.members = {&M::rail_gbytes_per_s, &M::send_gbytes_per_s};
  auto calls = calls_by(truth, {8, 65536, 4 << 20});
  for (MeasuredCall& c : calls) {
    const Prediction p = Predictor(c.cluster, truth, {}).predict(c.choice, c.collective, c.bytes);
    for (const RankUse& rank : p.run.ranks) c.core_us += rank.total_busy_us() * p.scale;
    c.core_us *= static_cast<double>(c.cluster->nranks()) / static_cast<double>(p.run.ranks.size());
  }
  const M found = fit_model({start, slow_wire}, {}, calls, options);
  MeasuredCall larger = calls.back();
  larger.cluster = even_cluster(8, 2);
  larger.time_us = Predictor(larger.cluster, truth, {}).predict(larger.choice, larger.collective, larger.bytes).time_us;
  larger.core_us = 0;
  EXPECT_GT(prediction_error(start, {}, {larger}), 0.2);
  EXPECT_LT(prediction_error(found, {}, {larger}), 0.1) << found.rail_gbytes_per_s << " " << found.send_gbytes_per_s;
}

TEST(Fit, LeavesAModelThatIsRight) {
  const NetworkModel truth;
  FitOptions options;
  options.members = {&NetworkModel::latency_us, &NetworkModel::doorbell_us};
  EXPECT_EQ(fit_model({truth}, {}, calls_by(truth, {8, 65536}), options), truth);
}

TEST(Fit, StaysInsideTheRanges) {
  const NetworkModel truth;
  auto calls = calls_by(truth, {8});
  for (MeasuredCall& c : calls) c.time_us = 1e12;
  FitOptions options;
  options.members = {&NetworkModel::latency_us, &NetworkModel::call_us, &NetworkModel::rail_gbytes_per_s};
  EXPECT_TRUE(parse_model(format_model(fit_model({truth}, {}, calls, options))));
}

}  // namespace
}  // namespace twohop
