// See tuner.hpp: candidates, the ladder of sizes, the borders.
#include "collectives/plan/model/tuner.hpp"

#include <algorithm>
#include <cmath>

namespace twohop {
namespace {

constexpr uint64_t kSmallest = 8, kLargest = uint64_t{1} << 30;
constexpr int kMostSizes = 10, kFewestSizes = 3;
constexpr uint64_t kStepsPerCall = 3'000;
constexpr Predictor::Effort kEffort{kStepsPerCall, false, 1, 400'000};
constexpr double kBorderPrecision = 1.05;  // a border lies within 5 % of where both neighbours cost the same
constexpr double kShareForCuts = 0.4, kShareForBorders = 2;  // of the allowance
constexpr double kWorthCutting = 0.98;                       // another cut must gain more than the prediction's grain
constexpr double kFarBehind = 1.4;
constexpr double kWorthRefining = 1.5;  // algorithms so much slower than the fastest do not get other chunks tried

std::vector<const Algorithm*> fitting(const TunerSpace& space, const Cluster& cluster, Collective collective) {
  std::vector<const Algorithm*> found;
  auto look = [&](const Algorithm* a) {
    if (a->supports(cluster, collective)) found.push_back(a);
  };
  for (const Algorithm* a : space.algorithms) look(a);
  if (space.algorithms.empty())
    for (const Algorithm& a : algorithms()) look(&a);
  return found;
}

bool faster(const Candidate& a, const Candidate& b) {
  return a.prediction.time_us < b.prediction.time_us;
}

/// Chunks and channels to try beside the largest: those that cut the data differently.
std::vector<Choice> variants(const Choice& base, const LayoutLimits& limits, uint64_t bytes) {
  std::vector<Choice> list;
  for (int channels = base.channels; channels >= 1; channels /= 2) {
    if (channels < base.channels && bytes <= static_cast<uint64_t>(channels) * limits.bytes_per_channel) continue;
    for (uint64_t chunk = base.chunk_bytes; chunk >= 8192; chunk /= 2) {
      Choice c = base;
      c.chunk_bytes = chunk;
      c.channels = channels;
      list.push_back(c);
    }
  }
  return list;
}

class Tuning {
 public:
  Tuning(Predictor& predictor, const TunerSpace& space, Collective collective)
      : predictor_(predictor), space_(space), collective_(collective) {}

  std::vector<TunerRow> rows() {
    const auto fits = fitting(space_, predictor_.cluster(), collective_);
    if (fits.empty()) return {};
    if (fits.size() == 1) return {{collective_, UINT64_MAX, base(fits[0])}};
    std::vector<std::pair<uint64_t, Choice>> best;
    begin_ = predictor_.steps_walked();
    const auto ladder = sizes(fits);
    const TunerSpace hopeful = those_with_a_chance(fits, {ladder.front(), ladder[ladder.size() / 2], ladder.back()});
    // Large calls gain most by a good cut and are looked at first; what they leave of the allowance is for the others.
    for (auto bytes = ladder.rbegin(); bytes != ladder.rend(); ++bytes) {
      const bool try_cuts = affordable(kShareForCuts);
      const auto list = candidates(predictor_, hopeful, collective_, *bytes, kEffort, try_cuts);
      best.emplace_back(*bytes, list.front().choice);
    }
    std::reverse(best.begin(), best.end());
    std::vector<TunerRow> rows;
    for (size_t i = 0; i + 1 < best.size(); ++i)
      if (!(best[i].second == best[i + 1].second))
        rows.push_back({collective_, border(best[i], best[i + 1]), best[i].second});
    rows.push_back({collective_, UINT64_MAX, best.back().second});
    return rows;
  }

 private:
  Choice base(const Algorithm* a) const { return {a, space_.max_chunk_bytes, space_.max_channels, space_.batch}; }

  /// Without algorithms that are far behind on the smallest, a middle and the largest size.
  TunerSpace those_with_a_chance(const std::vector<const Algorithm*>& fits, const std::vector<uint64_t>& probes) {
    std::vector<double> nearest(fits.size(), HUGE_VAL);
    for (uint64_t bytes : probes) {
      std::vector<double> times;
      for (const Algorithm* a : fits) times.push_back(predictor_.predict(base(a), collective_, bytes, kEffort).time_us);
      const double best = *std::min_element(times.begin(), times.end());
      for (size_t i = 0; i < fits.size(); ++i) nearest[i] = std::min(nearest[i], times[i] / best);
    }
    TunerSpace space = space_;
    space.algorithms.clear();
    for (size_t i = 0; i < fits.size(); ++i)
      if (nearest[i] < kFarBehind) space.algorithms.push_back(fits[i]);
    return space;
  }
  /// A ladder with as many rungs as the allowance pays for.
  std::vector<uint64_t> sizes(const std::vector<const Algorithm*>& fits) {
    uint64_t steps = 0;
    for (const Algorithm* a : fits) steps += std::max(kStepsPerCall, predictor_.program(*a, collective_).steps);
    const auto rungs = static_cast<int>(std::clamp<uint64_t>(space_.steps / (2 * steps), kFewestSizes, kMostSizes));
    std::vector<uint64_t> list;
    const double ratio = std::pow(static_cast<double>(kLargest) / kSmallest, 1.0 / (rungs - 1));
    for (int i = 0; i < rungs; ++i) {
      const double bytes = kSmallest * std::pow(ratio, i);
      list.push_back((static_cast<uint64_t>(std::llround(bytes)) + 7) / 8 * 8);
    }
    return list;
  }
  uint64_t border(const std::pair<uint64_t, Choice>& low, const std::pair<uint64_t, Choice>& high) {
    auto at = [&](const Choice& c, uint64_t bytes) {
      return predictor_.predict(c, collective_, bytes, kEffort).time_us;
    };
    auto a = static_cast<double>(low.first), b = static_cast<double>(high.first);
    while (b / a > kBorderPrecision && affordable(kShareForBorders)) {
      const double middle = std::sqrt(a * b);
      const auto bytes = static_cast<uint64_t>(middle);
      (at(low.second, bytes) <= at(high.second, bytes) ? a : b) = middle;
    }
    return static_cast<uint64_t>(std::sqrt(a * b));
  }

  bool affordable(double share) const {
    return static_cast<double>(predictor_.steps_walked() - begin_) < share * static_cast<double>(space_.steps);
  }

  Predictor& predictor_;
  const TunerSpace& space_;
  Collective collective_;
  uint64_t begin_ = 0;  // steps walked before
};

}  // namespace

const Choice* TunerTable::find(Collective collective, uint64_t bytes) const {
  for (const TunerRow& row : rows)
    if (row.collective == collective && bytes <= row.max_bytes) return &row.choice;
  return nullptr;
}

namespace {

/// A winner of whose rounds only some were walked is looked at with more effort, until the first is sure of its time.
void settle(Predictor& predictor, Collective collective, uint64_t bytes, std::vector<Candidate>& list) {
  constexpr Predictor::Effort kSure{150'000, false, 3, 1'000'000};
  std::vector<const Algorithm*> sure;
  while (list.front().prediction.walked < list.front().prediction.rounds) {
    const Algorithm* a = list.front().choice.algorithm;
    if (std::find(sure.begin(), sure.end(), a) != sure.end()) return;
    sure.push_back(a);
    list.front().prediction = predictor.predict(list.front().choice, collective, bytes, kSure);
    std::stable_sort(list.begin(), list.end(), faster);
  }
}

}  // namespace

std::vector<Candidate> candidates(Predictor& predictor, const TunerSpace& space, Collective collective, uint64_t bytes,
                                  Predictor::Effort effort, bool try_cuts) {
  std::vector<Candidate> list;
  for (const Algorithm* a : fitting(space, predictor.cluster(), collective)) {
    const Choice base{a, space.max_chunk_bytes, space.max_channels, space.batch};
    list.push_back({base, predictor.predict(base, collective, bytes, effort)});
  }
  if (list.empty()) return list;
  const double limit = kWorthRefining * std::min_element(list.begin(), list.end(), faster)->prediction.time_us;
  for (Candidate& best : list) {
    if (!try_cuts || best.prediction.time_us > limit) continue;
    std::vector<std::pair<uint64_t, int>> cuts{{best.prediction.chunk_bytes, best.prediction.channels}};
    for (const Choice& choice : variants(best.choice, predictor.limits(), bytes)) {
      const auto cut = predictor.cut(choice, collective, bytes);
      if (std::find(cuts.begin(), cuts.end(), cut) != cuts.end()) continue;
      cuts.push_back(cut);
      Candidate other{choice, predictor.predict(choice, collective, bytes, effort)};
      if (other.prediction.time_us < kWorthCutting * best.prediction.time_us) best = std::move(other);
    }
  }
  std::stable_sort(list.begin(), list.end(), faster);
  settle(predictor, collective, bytes, list);
  return list;
}

TunerTable tune(Predictor& predictor, const TunerSpace& space, const std::vector<Collective>& collectives) {
  TunerTable table;
  for (Collective c : collectives) {
    auto rows = Tuning(predictor, space, c).rows();
    table.rows.insert(table.rows.end(), rows.begin(), rows.end());
  }
  return table;
}

}  // namespace twohop
