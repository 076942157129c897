// See tuner.hpp: the candidates for one size, looked at with care, for a report.
#include <algorithm>

#include "collectives/plan/model/tuner.hpp"

namespace twohop {
namespace {

constexpr double kWorthCutting = 0.98;   // another cut must gain more than the prediction's grain
constexpr double kWorthRefining = 1.5;   // algorithms so much slower than the fastest do not get other chunks tried
constexpr uint64_t kSmallestCut = 8192;  // chunk bytes

bool faster(const Candidate& a, const Candidate& b) {
  return a.prediction.time_us < b.prediction.time_us;
}

/// Chunks and channels to try beside the largest: those that cut the data differently.
std::vector<Choice> variants(const Choice& base, const LayoutLimits& limits, uint64_t bytes) {
  std::vector<Choice> list;
  for (int channels = base.channels; channels >= 1; channels /= 2) {
    if (channels < base.channels && bytes <= static_cast<uint64_t>(channels) * limits.bytes_per_channel) continue;
    for (uint64_t chunk = base.chunk_bytes; chunk >= kSmallestCut; chunk /= 2) {
      Choice c = base;
      c.chunk_bytes = chunk;
      c.channels = channels;
      list.push_back(c);
    }
  }
  return list;
}

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
  for (const Algorithm* a : algorithms_of(space, predictor.cluster(), collective)) {
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

}  // namespace twohop
