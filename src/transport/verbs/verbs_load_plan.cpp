// See verbs_load_plan.hpp.
#include "transport/verbs/verbs_load_plan.hpp"

#include <algorithm>

namespace twohop::verbs {

std::vector<size_t> qps_of_channel(size_t channel, size_t channels, size_t paths, size_t qps_per_path) {
  std::vector<size_t> qps;
  auto add = [&](size_t path) {
    for (size_t q = 0; q < qps_per_path; ++q) qps.push_back(path * qps_per_path + q);
  };
  if (channels >= paths) {
    add(channel % paths);
  } else {
    for (size_t path = channel; path < paths; path += channels) add(path);
  }
  return qps;
}

size_t parts_of(uint64_t bytes, size_t qps) {
  const uint64_t wanted = (bytes + kMinPartBytes - 1) / kMinPartBytes;
  return static_cast<size_t>(std::clamp<uint64_t>(wanted, 1, qps));
}

uint64_t part_begin(uint64_t bytes, size_t parts, size_t part) {
  constexpr uint64_t kAlign = 128;
  const uint64_t step = (bytes / parts + kAlign - 1) / kAlign * kAlign;
  return part >= parts ? bytes : std::min(bytes, step * part);
}

}  // namespace twohop::verbs
