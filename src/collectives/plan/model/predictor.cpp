// See predictor.hpp.
#include "collectives/plan/model/predictor.hpp"

#include <algorithm>
#include <cmath>

namespace twohop {
namespace {

/// Slots let the stages drift apart in the first rounds, and they draw together in the last; between, rounds are alike.
struct Window {
  int64_t first, last, steady;  // rounds
  explicit Window(const Frame& f) {
    const int64_t slots = std::max<int64_t>(f.slots, int64_t{f.put_slots} * f.chunks_per_put);
    auto rounds = [&](int64_t chunks) { return (chunks + f.chunks - 1) / f.chunks; };
    first = rounds(slots * 2);
    last = rounds(slots * 3 / 2);
    steady = std::max<int64_t>(2, rounds(slots * 3));
  }
  int64_t least() const { return first + steady + last; }
};

/// While the rounds walked are this uneven, twice as many are walked.
constexpr double kUnrest = 0.02;
constexpr int64_t kFewestRounds = 3;
constexpr int kMostChannelsWalked = 4;           // by an estimate
constexpr uint64_t kStepsOfAnEstimate = 10'000;  // while more than one channel is walked
constexpr int64_t kRoundsOfAnEstimate = 2;       // one would not show how far rounds wait for each other

/// The rounds between start and end: how long each is, and how much the first half of them differs from the second.
struct Steady {
  double round_us = 0, unrest = 0;
  Steady(const std::vector<double>& ends, const Window& window) {
    if (static_cast<int64_t>(ends.size()) < window.least()) {  // all that can be had
      round_us = (ends.back() - ends.front()) / static_cast<double>(ends.size() - 1);
      unrest = 1;
      return;
    }
    const size_t to = ends.size() - 1 - static_cast<size_t>(window.last);
    const size_t from = std::max(static_cast<size_t>(window.first - 1), to / 3), middle = (from + to) / 2;
    auto slope = [&](size_t a, size_t b) { return (ends[b] - ends[a]) / static_cast<double>(b - a); };
    round_us = slope(middle, to);
    if (middle > from && round_us > 0) unrest = std::abs(slope(from, middle) / round_us - 1);
    if (unrest < kUnrest) round_us = slope(from, to);
  }
};

int channels_walked(const CostProgram& costs, int channels) {
  const auto affordable = static_cast<int>(
      std::min<uint64_t>(kStepsOfAnEstimate / std::max<uint64_t>(costs.steps, 1), kMostChannelsWalked));
  return std::clamp(affordable, 1, channels);
}

/// Rounds of the layout, the last one as the part of it that holds data.
double full_rounds(const Frame& frame, const Layout& layout, uint64_t buffer_bytes) {
  const bool blocks = frame.collective == Collective::kReduceScatter || frame.collective == Collective::kAllGather;
  const double chunks = blocks ? frame.chunks_per_block : double(frame.shards) * frame.chunks;
  const double share = static_cast<double>(buffer_bytes) / layout.channels();
  return std::clamp(share / (chunks * static_cast<double>(layout.chunk_bytes())),
                    static_cast<double>(layout.rounds() - 1), static_cast<double>(layout.rounds()));
}

uint64_t user_bytes(Collective c, uint64_t buffer_bytes, int nranks) {
  const bool blocks = c == Collective::kReduceScatter || c == Collective::kAllGather;
  return blocks ? buffer_bytes * (1 + static_cast<uint64_t>(nranks)) : 2 * buffer_bytes;
}

}  // namespace

Predictor::Predictor(std::shared_ptr<const Cluster> cluster, NetworkModel model, LayoutLimits limits, Depths depths,
                     Symmetry symmetry)
    : cluster_(std::move(cluster)),
      model_(std::move(model)),
      limits_(limits),
      depths_(depths),
      symmetry_(model_.nodes_per_machine == 1 ? symmetry : Symmetry::kOff) {}

const CostProgram& Predictor::program(const Algorithm& algorithm, Collective collective) {
  const auto key = std::make_pair(&algorithm, collective);
  auto it = programs_.find(key);
  if (it == programs_.end())
    it = programs_.emplace(key, make_cost_program(algorithm, cluster_, collective, depths_, symmetry_)).first;
  return it->second;
}

Layout Predictor::layout(const Choice& choice, const Frame& frame, uint64_t buffer_bytes) const {
  LayoutLimits limits = limits_;
  limits.chunk_bytes = choice.chunk_bytes;
  limits.max_channels = choice.channels;
  return {frame, *cluster_, buffer_bytes, limits};
}

std::pair<uint64_t, int> Predictor::cut(const Choice& choice, Collective collective, uint64_t buffer_bytes) {
  const Layout layout = this->layout(choice, program(*choice.algorithm, collective).frame, buffer_bytes);
  return {layout.chunk_bytes(), layout.channels()};
}

SimulatedSize Predictor::size_of(const Layout& layout, const Choice& choice, Collective collective,
                                 uint64_t buffer_bytes) const {
  SimulatedSize size;
  size.layout = &layout;
  size.buffer_bytes = user_bytes(collective, buffer_bytes, cluster_->nranks());
  size.batch = choice.batch;
  return size;
}

Prediction Predictor::predict(const Choice& choice, Collective collective, uint64_t buffer_bytes, Effort effort) {
  const CostProgram& costs = program(*choice.algorithm, collective);
  const Layout layout = this->layout(choice, costs.frame, buffer_bytes);

  SimulatedSize size = size_of(layout, choice, collective, buffer_bytes);
  size.timeline = effort.timeline;
  const uint64_t steps_per_round = std::max<uint64_t>(1, costs.steps * static_cast<uint64_t>(layout.channels()));
  const Window window(costs.frame);
  const auto most = static_cast<int64_t>(std::min<uint64_t>(effort.most_steps / steps_per_round, INT32_MAX));
  const auto wanted = std::max(window.least(), static_cast<int64_t>(effort.steps / steps_per_round));
  const auto affordable = std::min(wanted, std::max(kFewestRounds, most));
  size.rounds = std::min(layout.rounds(), affordable);

  Prediction p;
  p.rounds = layout.rounds();
  p.channels = layout.channels();
  p.chunk_bytes = layout.chunk_bytes();
  p.folded = costs.folded;
  for (int more = 0;; ++more) {
    p.run = simulate(costs, model_, size);
    steps_walked_ += p.run.steps;
    p.walked = size.rounds;
    p.time_us = p.run.time_us;
    if (p.walked == p.rounds) return p;
    const Steady steady(p.run.round_end_us, window);
    p.round_us = steady.round_us;
    p.even = steady.unrest < kUnrest;
    if (p.even || more >= effort.doublings || 2 * size.rounds > most) break;
    size.rounds = std::min(p.rounds, 2 * size.rounds);
  }
  const double full = full_rounds(costs.frame, layout, buffer_bytes);
  p.time_us += (full - static_cast<double>(p.walked)) * p.round_us;
  p.scale = full / static_cast<double>(p.walked);
  return p;
}

/// What as many rounds as were walked cannot be faster than.
double Predictor::busiest_us(const CostProgram& costs, const SimulatedRun& run) const {
  double rank = 0, all = 0;
  for (const RankUse& r : run.ranks) {
    rank = std::max(rank, r.total_busy_us());
    all += r.total_busy_us();
  }
  const int64_t nodes =
      model_.nodes_per_machine == 0 ? costs.nodes : std::min<int64_t>(model_.nodes_per_machine, costs.nodes);
  const double machines = costs.folded ? 1 : std::max(1.0, double(costs.nodes) / static_cast<double>(nodes));
  const double cores = std::max(rank, all / machines / static_cast<double>(model_.cores));
  return std::max(cores, run.wire_busy_us);
}

Predictor::Estimate Predictor::estimate(const Choice& choice, Collective collective, uint64_t buffer_bytes) {
  const auto [chunk_bytes, channels] = cut(choice, collective, buffer_bytes);
  const EstimateKey key{choice.algorithm, collective, chunk_bytes, channels, choice.batch, buffer_bytes};
  if (const auto known = estimates_.find(key); known != estimates_.end()) return known->second;
  const CostProgram& costs = program(*choice.algorithm, collective);
  Choice few = choice;  // the data of the other channels comes in further rounds
  few.channels = channels_walked(costs, channels);
  few.chunk_bytes = chunk_bytes;
  const Layout layout = this->layout(few, costs.frame, buffer_bytes);
  SimulatedSize size = size_of(layout, few, collective, buffer_bytes);
  size.rounds = std::min(layout.rounds(), kRoundsOfAnEstimate);
  const SimulatedRun run = simulate(costs, model_, size);
  steps_walked_ += run.steps;
  Estimate e{run.time_us, 0};
  if (const auto walked = static_cast<double>(size.rounds); layout.rounds() > size.rounds)
    e.rest_us = (full_rounds(costs.frame, layout, buffer_bytes) - walked) * busiest_us(costs, run) / walked;
  estimates_.emplace(key, e);
  return e;
}

double Predictor::estimate_us(const Choice& choice, Collective collective, uint64_t buffer_bytes, double pace) {
  const Estimate e = estimate(choice, collective, buffer_bytes);
  return e.start_us + pace * e.rest_us;
}

double Predictor::pace(const Choice& choice, Collective collective, uint64_t buffer_bytes, int64_t rounds) {
  const Estimate e = estimate(choice, collective, buffer_bytes);
  if (e.rest_us <= 0) return 1;
  const CostProgram& costs = program(*choice.algorithm, collective);
  Choice few = choice;
  few.channels = channels_walked(costs, choice.channels);
  const uint64_t steps = costs.steps * static_cast<uint64_t>(few.channels * rounds);
  return (predict(few, collective, buffer_bytes, {0, false, 0, steps}).time_us - e.start_us) / e.rest_us;
}

}  // namespace twohop
