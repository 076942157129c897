// Where a rank finds the windows, inboxes and counters of the ranks of its node: pointers only, to host memory or to
// that of GPUs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "collectives/exec/window_map.hpp"

namespace twohop {

struct NodeAddresses {
  int me = 0;  // index among the node's ranks
  WindowMap map;
  std::vector<std::byte*> segments;      // by local rank: windows and inboxes as in `map`
  std::vector<std::byte*> counter_sets;  // by local rank: a segment whose counters, as in `map`, this rank polls
  std::vector<std::byte*> inbox_sets;    // by local rank: its first inbox, where they are apart from the windows

  const uint64_t* counter(int local, size_t channel, size_t lane) const {
    return reinterpret_cast<const uint64_t*>(counter_sets[local] + map.counter(channel, lane));
  }
  std::byte* window(int local, size_t channel) const { return segments[local] + map.window(channel); }
  std::byte* inbox(int local, size_t number) const {
    if (inbox_sets.empty()) return segments[local] + map.inbox(number);
    return inbox_sets[local] + number * 2 * map.inbox_bytes;
  }
};

}  // namespace twohop
