// Vector clocks over the lanes and links of one node, for the checker: who certainly knows of which event.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace twohop {

using Clock = std::vector<uint32_t>;  // by thread of the node: how many of its events are known
using ClockView = std::span<const uint32_t>;

inline void join(Clock& into, ClockView other) {
  for (size_t i = 0; i < into.size(); ++i) into[i] = std::max(into[i], other[i]);
}

/// Joins the knowledge that `thread` had at one of its events; false when all of it was known already. Knowledge is
/// only ever passed on whole, so whoever knows the event knows what it knew.
inline bool learn(Clock& into, ClockView at_event, uint32_t thread) {
  if (into[thread] >= at_event[thread]) return false;
  join(into, at_event);
  return true;
}

/// One event: the `count`-th of a thread.
struct Event {
  uint32_t thread = 0, count = 0;
  bool known_to(ClockView c) const { return c[thread] >= count; }
};

/// Clocks of a sequence of events.
class ClockLog {
 public:
  void push(const Clock& c) {
    words_.insert(words_.end(), c.begin(), c.end());
    ++size_;
  }
  int64_t size() const { return size_; }
  ClockView operator[](int64_t i) const {
    const size_t width = words_.size() / size_;
    return {words_.data() + i * width, width};
  }

 private:
  std::vector<uint32_t> words_;
  int64_t size_ = 0;
};

}  // namespace twohop
