// See verbs_send_queue.hpp.
#include "transport/verbs/verbs_send_queue.hpp"

#include <algorithm>
#include <bit>
#include <chrono>

namespace twohop::verbs {

uint64_t now_ns() {
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
          .count());
}

SendQueue::SendQueue(ibv_qp* qp, uint32_t id, size_t capacity, const SendRules& rules, EndpointCounters* counters)
    : qp_(qp),
      id_(uint64_t{id} << kNumberBits),
      rules_(rules),
      counters_(counters),
      ring_(std::bit_ceil(capacity)),
      mask_(ring_.size() - 1) {}

Request& SendQueue::append() {
  TWOHOP_CHECK(!full(), "send queue {} of {} requests is full", id_ >> kNumberBits, ring_.size());
  if (empty()) ready_since_ns_ = now_ns();
  Request& r = at(ready_);
  r = {};
  r.wr.wr_id = id_ | (ready_ & ((uint64_t{1} << kNumberBits) - 1));
  ++ready_;
  return r;
}

std::vector<SendQueue::Unfinished> SendQueue::take_unfinished() {
  std::vector<Unfinished> taken;
  for (uint64_t i = done_; i != ready_; ++i) taken.push_back({at(i), i < posted_});
  done_ = posted_ = signalled_end_ = ready_;
  unfinished_bytes_ = 0;
  since_signal_ = 0;
  return taken;
}

Request& SendQueue::append_again(const Request& r) {
  Request& fresh = append();
  const uint64_t wr_id = fresh.wr.wr_id;
  fresh = r;
  fresh.wr.wr_id = wr_id;
  return fresh;
}

uint64_t SendQueue::end_of(uint64_t wr_id) const {
  constexpr uint64_t kMask = (uint64_t{1} << kNumberBits) - 1;
  const uint64_t finished = ((wr_id - done_) & kMask) + 1;
  TWOHOP_CHECK(finished <= posted_ - done_, "completion of request {}, posted are {} to {}", wr_id & kMask, done_,
               posted_);
  return done_ + finished;
}

/// Signalled are: the last of a batch if somebody waits for anything in it, every n-th, and, in a batch of more than
/// hold_bytes, the request after which hold_bytes are left, so that the next batch goes out before the wire is idle.
void SendQueue::choose_signals(uint32_t count) {
  uint64_t left = 0;
  bool wanted = false, early_chosen = rules_.hold_bytes == 0;
  for (uint32_t i = count; i-- > 0;) {
    Request& r = at(posted_ + i);
    wanted |= r.wants_done;
    const bool last = i + 1 == count;
    // An early signal in a short batch costs more completions than it gains.
    const bool early = !early_chosen && !last && left >= rules_.hold_bytes && count >= 8;
    if (early) early_chosen = true;
    r.wr.send_flags = (r.wr.send_flags & ~unsigned{IBV_SEND_SIGNALED}) | (early ? unsigned{IBV_SEND_SIGNALED} : 0);
    left += r.sge.length;
  }
  Request& last = at(posted_ + count - 1);
  if (wanted || since_signal_ + count >= rules_.signal_every) {
    last.wr.send_flags |= IBV_SEND_SIGNALED;
    since_signal_ = 0;
  } else {
    since_signal_ += count;
  }
}

/// Links the next `count` requests for one post_send.
uint32_t SendQueue::chain(uint32_t count, uint64_t now) {
  uint32_t signalled = 0;
  for (uint32_t i = 0; i < count; ++i) {
    Request& r = at(posted_ + i);
    // Inline requests carry a pointer too; num_sge 0 has no bytes.
    r.wr.sg_list = r.wr.num_sge > 0 ? &r.sge : nullptr;
    r.wr.next = i + 1 < count ? &at(posted_ + i + 1).wr : nullptr;
    r.posted_ns = now;
    unfinished_bytes_ += r.sge.length;
    if ((r.wr.send_flags & IBV_SEND_SIGNALED) == 0) continue;
    ++signalled;
    signalled_end_ = posted_ + i + 1;
  }
  return signalled;
}

int SendQueue::post() {
  while (!empty()) {
    const uint64_t room = rules_.max_posted - std::min<uint64_t>(rules_.max_posted, posted_ - done_);
    const auto count = static_cast<uint32_t>(std::min<uint64_t>({ready_ - posted_, rules_.batch, room}));
    if (count == 0) return 0;
    const bool complete = count == rules_.batch;
    if (!complete && unfinished_bytes_ > rules_.hold_bytes) return 0;
    choose_signals(count);
    const uint64_t now = now_ns();
    if (posted_ == done_) first_unfinished_ns_ = now;
    counters_->held_ns += now - ready_since_ns_;
    const uint32_t signalled = chain(count, now);
    ibv_send_wr* bad = nullptr;
    if (const int failed = ibv_post_send(qp_, &at(posted_).wr, &bad)) return failed;
    ready_since_ns_ = now_ns();  // from here on the rest waits for its own
    counters_->post_ns += ready_since_ns_ - now;
    posted_ += count;
    ++counters_->doorbells;
    counters_->work_requests += count;
    counters_->signalled_completions += signalled;
  }
  return 0;
}

}  // namespace twohop::verbs
