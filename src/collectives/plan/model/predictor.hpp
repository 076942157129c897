// Predictor: what does a call of some size cost under some choice of algorithm, chunk, channels and batch?
//
// Long calls are not walked to their end: once their rounds follow each other evenly, the time of the rest is that of
// as many more rounds. The steps walked are bounded; docs/model.md says what error that makes.
#pragma once

#include <map>
#include <memory>
#include <tuple>
#include <utility>

#include "collectives/plan/model/choice.hpp"
#include "collectives/plan/model/simulator.hpp"

namespace twohop {

struct Prediction {
  double time_us = 0;
  int64_t rounds = 1, walked = 1;  // of the call; that were simulated
  double round_us = 0;             // of each round that was not
  bool even = true;                // the rounds that were walked had come to one pace
  int channels = 1;
  uint64_t chunk_bytes = 0;
  bool folded = false;
  SimulatedRun run;  // of the rounds that were walked
  double scale = 1;  // what its busy times are multiplied by to speak of the whole call
};

class Predictor {
 public:
  /// `limits`: memory and the bytes that a further channel is opened for.
  Predictor(std::shared_ptr<const Cluster> cluster, NetworkModel model, LayoutLimits limits, Depths depths = {},
            Symmetry symmetry = Symmetry::kAuto);

  struct Effort {
    uint64_t steps = 400'000;  // walked, about; at least the rounds of a start, an end and some between are
    bool timeline = false;
    int doublings = 3;                 // how often twice as many steps are walked where rounds turn out uneven
    uint64_t most_steps = UINT64_MAX;  // a bound even where it leaves too few rounds for a pace to show
  };
  /// Pre: the algorithm supports the cluster and the collective.
  Prediction predict(const Choice& choice, Collective collective, uint64_t buffer_bytes, Effort effort);
  Prediction predict(const Choice& choice, Collective collective, uint64_t buffer_bytes) {
    return predict(choice, collective, buffer_bytes, Effort());
  }

  /// Much cheaper and a little coarser: two rounds of a few channels are walked, and the others take as long as the
  /// busiest core or rail was busy in them, times `pace` (what pace() has found). docs/model.md says how far off that
  /// is. The last estimates are remembered.
  double estimate_us(const Choice& choice, Collective collective, uint64_t buffer_bytes, double pace = 1);
  /// By how much the rounds of a long call are slower than estimate_us() takes them for: `rounds` of them are walked.
  double pace(const Choice& choice, Collective collective, uint64_t buffer_bytes, int64_t rounds);

  /// Chunk bytes and channels that a choice comes to for some size.
  std::pair<uint64_t, int> cut(const Choice& choice, Collective collective, uint64_t buffer_bytes);

  const CostProgram& program(const Algorithm& algorithm, Collective collective);
  const Cluster& cluster() const { return *cluster_; }
  const NetworkModel& model() const { return model_; }
  const LayoutLimits& limits() const { return limits_; }
  /// By all predictions so far: what they have cost.
  uint64_t steps_walked() const { return steps_walked_; }

 private:
  Layout layout(const Choice& choice, const Frame& frame, uint64_t buffer_bytes) const;
  struct Estimate {
    double start_us = 0, rest_us = 0;  // what was walked; all other rounds, at pace 1
    bool operator==(const Estimate&) const = default;
  };
  Estimate estimate(const Choice& choice, Collective collective, uint64_t buffer_bytes);
  SimulatedSize size_of(const Layout& layout, const Choice& choice, Collective collective, uint64_t buffer_bytes) const;
  double busiest_us(const CostProgram& costs, const SimulatedRun& run) const;

  std::shared_ptr<const Cluster> cluster_;
  NetworkModel model_;
  LayoutLimits limits_;
  Depths depths_;
  Symmetry symmetry_;
  uint64_t steps_walked_ = 0;
  std::map<std::pair<const Algorithm*, Collective>, CostProgram> programs_;
  using EstimateKey = std::tuple<const Algorithm*, Collective, uint64_t, int, uint32_t, uint64_t>;
  std::map<EstimateKey, Estimate> estimates_;  // by cut and size
};

}  // namespace twohop
