// Vector clocks over lanes and links, for the checker.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace twohop {

using Clock = std::vector<uint32_t>;  // by thread: how many of its events are known

inline void join(Clock& into, const Clock& other) {
  for (size_t i = 0; i < into.size(); ++i) into[i] = std::max(into[i], other[i]);
}

/// One event: the `count`-th of a thread.
struct Event {
  uint32_t thread = 0, count = 0;
  bool known_to(const Clock& c) const { return c[thread] >= count; }
};

}  // namespace twohop
