// Numbers the cells of the checker's memory: every chunk's place in the user's buffers, every slot of a window, every
// slot of an inbox. Windows and inboxes have two halves, for calls of even and odd number.
//
// Each call cuts a half into slots of its own size. Which cells of two calls overlap does not matter: before a call
// touches a window's half the call before the last has ended there, and before its first put into an inbox's half all
// cells of that must be free (CheckMemory::all_free).
#pragma once

#include <algorithm>
#include <vector>

#include "collectives/plan/check_memory.hpp"

namespace twohop {

class Cells {
 public:
  Cells(int nranks, size_t inboxes, const std::vector<Frame>& frames, const std::vector<CheckedCall>& calls)
      : frames_(frames) {
    for (size_t c = 0; c < calls.size(); ++c) {
      user_.push_back(end_);
      end_ += nranks * user_size(frames[c], calls[c].rounds);
      rounds_.push_back(calls[c].rounds);
      areas_ = std::max<size_t>(areas_, frames[c].areas);
      slots_ = std::max<size_t>(slots_, frames[c].slots);
      put_slots_ = std::max<size_t>(put_slots_, frames[c].put_slots);
      parts_ = std::max<size_t>(parts_, frames[c].chunks_per_put);
    }
    window_ = end_;
    end_ += nranks * 2 * areas_ * slots_;
    inbox_ = end_;
    end_ += inboxes * 2 * put_slots_ * parts_;
  }

  size_t size() const { return end_; }

  /// The output, which is the input too where the call is in place.
  size_t user(int rank, const ChunkName& c) const {
    const Frame& f = frames_[c.call];
    return user_[c.call] + rank * user_size(f, rounds_[c.call]) + (size_t(c.round) * f.shards + c.shard) * f.chunks +
           c.index;
  }
  size_t window(int rank, int call, int area, int64_t index) const {
    return window_ + ((rank * size_t{2} + (call & 1)) * areas_ + area) * slots_ + index % frames_[call].slots;
  }
  size_t inbox(int number, int call, int64_t put, int part) const {
    return inbox_ + ((number * size_t{2} + (call & 1)) * put_slots_ + put % frames_[call].put_slots) * parts_ + part;
  }
  /// The first of the half of an inbox, and how many it has.
  size_t inbox_half(int number, int call) const { return inbox(number, call, 0, 0); }
  size_t inbox_half_size() const { return put_slots_ * parts_; }

 private:
  static size_t user_size(const Frame& f, int rounds) { return size_t(rounds) * f.shards * f.chunks; }

  const std::vector<Frame>& frames_;
  std::vector<size_t> user_;  // by call: where it begins
  std::vector<int> rounds_;   // by call
  size_t areas_ = 0, slots_ = 0, put_slots_ = 0, parts_ = 0;
  size_t window_ = 0, inbox_ = 0, end_ = 0;
};

}  // namespace twohop
