// Execution of a small all-reduce on one node: one-shot (plan/one_shot.cpp) in one round, without lanes and signals. A
// rank publishes its contribution together with its notice, and folds all when it has seen the notices of all; what
// fits travels in the notice itself, so that a peer costs one cache line.
//
// Why nothing is overwritten too early: see open(). A contribution lies in the half of this call's parity, and all
// ranks have read it before they open the next call.
#include <bit>
#include <cstring>

#include "collectives/exec/execution.hpp"

namespace twohop {

bool Execution::is_small(const Call& call, const Choice& choice) const {
  return !c_.endpoint && choice.algorithm == one_shot_ && call.count * element_bytes_ <= c_.limits.window_bytes;
}

Result<Execution::Progress> Execution::progress_small() {
  if (!opened_) {
    show_input();
    open();
  }
  if (!all_local_verified()) {
    if (++empty_sweeps_ > kSweepsBeforeLook) look_for_departed();
    if (error_) return *error_;
    return Progress::kNothing;
  }
  fold_inputs();
  finish();
  return Progress::kDone;
}

void Execution::show_input() {
  const size_t bytes = call_.count * element_bytes_;
  const int me = c_.node->me();
  if (bytes == 0 || c_.node->size() == 1) return;
  const uint64_t begin = c_.trace ? Trace::now_ns() : 0;
  std::byte* inside = c_.node->control(me).notices[half_].input;
  std::memcpy(bytes <= CallNotice::kInputBytes ? inside : c_.node->window(me, 0) + half_ * c_.limits.window_bytes,
              call_.send, bytes);
  if (c_.trace) trace_small(Trace::Kind::kCopy, begin, bytes);
}

void Execution::fold_inputs() {
  const uint64_t begin = c_.trace ? Trace::now_ns() : 0;
  if (c_.trace) trace_small(Trace::Kind::kWaited, opened_at_ns_, 0);
  const size_t bytes = call_.count * element_bytes_;
  if (bytes == 0) return;
  const void* srcs[kMaxReduceSources];
  Scalar scales[kMaxReduceSources];
  const int n = c_.node->size();
  for (int i = 0; i < n; ++i) {
    const CallNotice& notice = c_.node->control(i).notices[half_];
    srcs[i] = bytes <= CallNotice::kInputBytes ? notice.input : c_.node->window(i, 0) + half_ * c_.limits.window_bytes;
    scales[i] = notice.scale;
  }
  srcs[c_.node->me()] = call_.send;
  reduce_(call_.recv, srcs, n, scaled_ ? scales : nullptr, divisor_, call_.count);
  if (c_.trace) trace_small(Trace::Kind::kReduce, begin, bytes);
}

/// The first rank of the node that has not entered the call; -1: none.
int Execution::first_absent() const {
  return unverified_ == 0 ? -1 : c_.cluster->peers_of(c_.rank)[std::countr_zero(unverified_)];
}

}  // namespace twohop
