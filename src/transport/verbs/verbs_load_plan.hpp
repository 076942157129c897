// Which queue pairs does a channel use between two ranks? Rails of both ends are joined to paths (verbs_reach.hpp),
// channels to paths, paths have queue pairs. Both ends compute the same. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace twohop::verbs {

/// The queue pairs of `channel`, numbered path * qps_per_path + i. Many channels share a path when there are more
/// channels than paths; a channel has several paths when there are fewer.
std::vector<size_t> qps_of_channel(size_t channel, size_t channels, size_t paths, size_t qps_per_path);

/// How many parts a put of so many bytes has on `qps` queue pairs: no part is smaller than kMinPartBytes.
constexpr uint64_t kMinPartBytes = 4096;
size_t parts_of(uint64_t bytes, size_t qps);
/// The first byte of a part, a multiple of 128; part `parts` begins at the end.
uint64_t part_begin(uint64_t bytes, size_t parts, size_t part);

}  // namespace twohop::verbs
