// Mean, median, percentile; no measuring here.
#include "iteration_stats.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace twohop::perf {
namespace {

double mean(std::span<const double> v) {
  return std::accumulate(v.begin(), v.end(), 0.0) / static_cast<double>(v.size());
}

double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  size_t half = v.size() / 2;
  return v.size() % 2 ? v[half] : (v[half - 1] + v[half]) / 2;
}

}  // namespace

IterationStats summarize(std::span<const double> times) {
  IterationStats s;
  if (times.empty()) return s;
  std::vector<double> sorted(times.begin(), times.end());
  std::sort(sorted.begin(), sorted.end());
  size_t n = sorted.size();
  s.mean = mean(sorted);
  s.min = sorted.front();
  s.max = sorted.back();
  s.median = median(sorted);
  s.p99 = sorted[std::min(n - 1, (n * 99 + 99) / 100 - 1)];
  double variance = 0;
  for (double t : sorted) variance += (t - s.mean) * (t - s.mean) / static_cast<double>(n);
  s.cv_percent = s.mean > 0 ? 100 * std::sqrt(variance) / s.mean : 0;
  return s;
}

std::vector<double> combine_ranks(std::span<const double> all_ranks, size_t iters, Average how) {
  size_t nranks = all_ranks.size() / iters;
  std::vector<double> out(all_ranks.begin(), all_ranks.begin() + static_cast<std::ptrdiff_t>(iters));
  if (how == Average::kRank0) return out;
  for (size_t r = 1; r < nranks; ++r)
    for (size_t i = 0; i < iters; ++i) {
      double t = all_ranks[r * iters + i];
      out[i] = how == Average::kMin ? std::min(out[i], t) : how == Average::kMax ? std::max(out[i], t) : out[i] + t;
    }
  if (how == Average::kMean)
    for (double& t : out) t /= static_cast<double>(nranks);
  return out;
}

std::pair<size_t, size_t> round_part(size_t iters, size_t rounds, size_t round) {
  return {iters * round / rounds, iters * (round + 1) / rounds};
}

double median_of_round_means(std::span<const double> times, size_t rounds) {
  if (times.empty()) return 0;
  std::vector<double> means;
  for (size_t r = 0; r < rounds; ++r) {
    auto [first, last] = round_part(times.size(), rounds, r);
    means.push_back(mean(times.subspan(first, last - first)));
  }
  return median(std::move(means));
}

}  // namespace twohop::perf
