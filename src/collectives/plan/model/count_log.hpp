// CountLog: when a count (signals of a lane, puts of a link sent, arrived, released) reached each of its values, and
// which lanes wait for it to go on.
#pragma once

#include <cstdint>
#include <vector>

namespace twohop {

/// A lane of a rank, by index.
struct LaneAt {
  int32_t rank = 0, lane = 0;
};

class CountLog {
 public:
  /// Times never go back. Calls wake(lane, time) for each lane whose target this reaches.
  template <class Wake>
  void push(double time_us, Wake wake) {
    if (!times_.empty() && time_us < times_.back()) time_us = times_.back();
    times_.push_back(time_us);
    const auto reached = static_cast<int64_t>(times_.size());
    for (size_t i = 0; i < waiters_.size();) {
      if (waiters_[i].target > reached) {
        ++i;
        continue;
      }
      const LaneAt lane = waiters_[i].lane;
      waiters_[i] = waiters_.back();
      waiters_.pop_back();
      wake(lane, time_us);
    }
  }
  int64_t count() const { return static_cast<int64_t>(times_.size()); }
  /// Pre: 1 <= target <= count().
  double reached_at(int64_t target) const { return times_[static_cast<size_t>(target - 1)]; }
  void wait(LaneAt lane, int64_t target) { waiters_.push_back({target, lane}); }

 private:
  struct Waiter {
    int64_t target;
    LaneAt lane;
  };
  std::vector<double> times_;
  std::vector<Waiter> waiters_;
};

}  // namespace twohop
