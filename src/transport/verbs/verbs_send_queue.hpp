// SendQueue: the work requests of one queue pair, from being ready to being finished: how many go out with one
// doorbell, when a batch waits for company, and which requests are signalled. Knows nothing of links or puts.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <span>
#include <vector>

#include "base/check.hpp"
#include "transport/endpoint.hpp"

namespace twohop::verbs {

struct Request {
  ibv_send_wr wr;
  ibv_sge sge;
  uint32_t owner;      // the user's: which link it belongs to
  uint16_t slot;       // the user's
  bool ends_part;      // the user's: the last request of a part of a put
  bool is_credit;      // the user's
  bool wants_done;     // somebody waits for its completion: it, or one after it in its batch, is signalled
  uint64_t posted_ns;  // when its doorbell rang
};

struct SendRules {
  uint32_t max_posted = 512;  // requests posted and unfinished; the queue pair has twice as many slots
  uint32_t batch = 64;        // requests per doorbell
  uint64_t hold_bytes = 0;    // while more is posted and unfinished, a batch that is not full waits
  uint32_t signal_every = 64;
};
/// "at least twice the requests in flight", and no signal may wait for a full queue.
constexpr bool sound(const SendRules& r, uint32_t sq_depth) {
  return r.max_posted >= 1 && sq_depth >= 2 * r.max_posted && r.signal_every <= (sq_depth + 3) / 4 && r.batch >= 1;
}

/// The monotonic clock.
uint64_t now_ns();

class SendQueue {
 public:
  /// `id` goes into the upper bits of every wr_id. `capacity`: requests that may be between append() and finished.
  SendQueue(ibv_qp* qp, uint32_t id, size_t capacity, const SendRules& rules, EndpointCounters* counters);

  bool full() const { return ready_ - done_ > mask_; }
  bool empty() const { return posted_ == ready_; }
  bool idle() const { return done_ == ready_; }
  size_t waiting() const { return ready_ - posted_; }
  /// Whether the device owes a completion: it tells nothing of requests after the last signalled one.
  bool completion_due() const { return done_ < signalled_end_; }
  /// Requests finished since the beginning.
  uint64_t finished() const { return done_; }
  uint64_t unfinished_bytes() const { return unfinished_bytes_; }
  uint64_t first_unfinished_ns() const { return first_unfinished_ns_; }

  /// The next request, zeroed but for its wr_id; to be filled in before anything else is done here.
  Request& append();
  void limit_batch(uint32_t requests) { rules_.batch = requests; }
  /// The request appended last.
  Request& last() { return at(ready_ - 1); }
  /// Posts what is ready, in batches. Holds an incomplete batch while the wire is busy. Returns errno, 0 for success.
  int post();

  /// What is not finished, whether posted or not, when the queue pair is gone; the queue is empty afterwards.
  struct Unfinished {
    Request request;
    bool posted = false;
  };
  std::vector<Unfinished> take_unfinished();
  /// The queue pair that takes the place of the one that is gone. What the latter had posted must be taken.
  void use(ibv_qp* qp) { qp_ = qp; }
  /// Like append(), with the contents of a request that was taken.
  Request& append_again(const Request& r);

  /// All requests up to this wr_id are finished: calls f(request) for each.
  template <class F>
  void finish(uint64_t wr_id, F&& f) {
    const uint64_t end = end_of(wr_id);
    counters_->completion_ns += now_ns() - at(end - 1).posted_ns;
    for (; done_ != end; ++done_) {
      Request& r = at(done_);
      unfinished_bytes_ -= r.sge.length;
      f(r);
    }
  }
  /// The queue of a wr_id, of a send or of a receive.
  static uint32_t id_of(uint64_t wr_id) { return static_cast<uint32_t>((wr_id & ~kReceive) >> kNumberBits); }
  static uint64_t receive_wr_id(uint32_t id) { return kReceive | uint64_t{id} << kNumberBits; }
  static bool is_receive(uint64_t wr_id) { return (wr_id & kReceive) != 0; }

 private:
  static constexpr int kNumberBits = 40;
  static constexpr uint64_t kReceive = uint64_t{1} << 63;
  Request& at(uint64_t number) { return ring_[number & mask_]; }
  uint64_t end_of(uint64_t wr_id) const;
  uint32_t chain(uint32_t count, uint64_t now);
  void choose_signals(uint32_t count);

  ibv_qp* qp_;
  uint64_t id_;
  SendRules rules_;
  EndpointCounters* counters_;
  std::vector<Request> ring_;  // a power of two of them
  uint64_t mask_;
  uint64_t done_ = 0, posted_ = 0, ready_ = 0;  // requests, counted since the beginning
  uint64_t signalled_end_ = 0;                  // after the last signalled one posted
  uint64_t unfinished_bytes_ = 0;
  uint32_t since_signal_ = 0;
  uint64_t ready_since_ns_ = 0, first_unfinished_ns_ = 0;
};

}  // namespace twohop::verbs
