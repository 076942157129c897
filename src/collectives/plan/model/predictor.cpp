// See predictor.hpp.
#include "collectives/plan/model/predictor.hpp"

#include <algorithm>

namespace twohop {
namespace {

/// Slots let the stages drift apart by a few rounds at the start and draw together at the end; between, rounds are
/// alike.
/// Blocks, of which a round has one or more of each shard: at the start, at the end, and between.
constexpr int64_t kFirstBlocks = 4, kLastBlocks = 6, kSteadyBlocks = 10;

struct Window {
  int64_t first, last, steady;  // rounds
  explicit Window(const Frame& f) {
    const int64_t blocks = std::max(1, f.chunks / f.chunks_per_put);
    auto rounds = [&](int64_t n) { return (n + blocks - 1) / blocks; };
    first = rounds(kFirstBlocks);
    last = rounds(kLastBlocks);
    steady = std::max<int64_t>(2, rounds(kSteadyBlocks));
  }
  int64_t least() const { return first + steady + last; }
};

/// Rounds of the layout, the last one as the part of it that holds data.
double full_rounds(const Frame& frame, const Layout& layout, uint64_t buffer_bytes) {
  const bool blocks = frame.collective == Collective::kReduceScatter || frame.collective == Collective::kAllGather;
  const double chunks = blocks ? frame.chunks_per_put : double(frame.shards) * frame.chunks;
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

Prediction Predictor::predict(const Choice& choice, Collective collective, uint64_t buffer_bytes, Effort effort) {
  const CostProgram& costs = program(*choice.algorithm, collective);
  const Layout layout = this->layout(choice, costs.frame, buffer_bytes);

  SimulatedSize size;
  size.layout = &layout;
  size.buffer_bytes = user_bytes(collective, buffer_bytes, cluster_->nranks());
  size.batch = choice.batch;
  size.timeline = effort.timeline;
  const uint64_t steps_per_round = std::max<uint64_t>(1, costs.steps * static_cast<uint64_t>(layout.channels()));
  const Window window(costs.frame);
  const auto affordable = std::max(window.least(), static_cast<int64_t>(effort.steps / steps_per_round));
  size.rounds = std::min(layout.rounds(), affordable);

  Prediction p;
  p.rounds = layout.rounds();
  p.walked = size.rounds;
  p.channels = layout.channels();
  p.chunk_bytes = layout.chunk_bytes();
  p.folded = costs.folded;
  p.run = simulate(costs, model_, size);
  steps_walked_ += p.run.steps;
  p.time_us = p.run.time_us;
  if (p.walked == p.rounds) return p;
  const double full = full_rounds(costs.frame, layout, buffer_bytes);
  const auto& ends = p.run.round_end_us;
  const auto from = static_cast<size_t>(window.first - 1), to = static_cast<size_t>(p.walked - 1 - window.last);
  p.round_us = (ends[to] - ends[from]) / static_cast<double>(to - from);
  p.time_us += (full - static_cast<double>(p.walked)) * p.round_us;
  p.scale = full / static_cast<double>(p.walked);
  return p;
}

}  // namespace twohop
