// How are the times of many iterations on many ranks summed up?
#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "perf_options.hpp"

namespace twohop::perf {

/// All in the unit of the input. p99 is the smallest value that at least 99 % of the iterations do not exceed.
struct IterationStats {
  double mean = 0, min = 0, max = 0, median = 0, p99 = 0, cv_percent = 0;
};
IterationStats summarize(std::span<const double> times);

/// One time per iteration from all ranks' (rank by rank, `iters` each), as -a says.
std::vector<double> combine_ranks(std::span<const double> all_ranks, size_t iters, Average how);

/// The iterations [first, second) of round `round`, when `iters` are spread over `rounds` as evenly as they go.
std::pair<size_t, size_t> round_part(size_t iters, size_t rounds, size_t round);

/// The median over rounds (consecutive parts of `times`, as round_part says) of each round's mean: what one disturbed
/// round cannot change. With one round it is the mean.
double median_of_round_means(std::span<const double> times, size_t rounds);

}  // namespace twohop::perf
