// Execution, second part: comparing the calls that ranks make.
#include <fmt/format.h>

#include <bit>

#include "collectives/exec/execution.hpp"

namespace twohop {

/// True when local rank `local` makes the same call; it has published its notice before its first signal.
bool Execution::verify_local(int local) {
  const uint64_t bit = uint64_t{1} << local;
  if ((unverified_ & bit) == 0) return true;
  const CallNotice& notice = c_.node->control(local).notices[half_];
  // A rank can be one call ahead, but it cannot reuse this notice before we have finished this call.
  if (notice.call.load(std::memory_order_acquire) != number_) return false;
  if (notice.signature != signature_) {
    mismatch(c_.cluster->peers_of(c_.rank)[local], notice.signature);
    return false;
  }
  unverified_ &= ~bit;
  return true;
}

bool Execution::verify_in_link(size_t link) {
  const InLink& in = *in_[link].link;
  const CallTag& tag = in.tags[number_ % in.tags.size()];
  if (tag.call != number_) return false;
  if (tag.signature == signature_) return true;
  mismatch(in.id.src, tag.signature);
  return false;
}

/// While nothing moves: looks at everybody who has entered this call, also where no step of ours waits for him.
void Execution::verify_all() {
  all_local_verified();
  for (size_t i = 0; i < in_used_ && !error_; ++i) verify_in_link(i);
}

bool Execution::all_local_verified() {
  for (uint64_t left = unverified_; left != 0 && !error_; left &= left - 1) verify_local(std::countr_zero(left));
  return unverified_ == 0 && !error_;
}

/// While nothing moves: a rank that has destroyed its communicator will not do its part of this call.
void Execution::look_for_departed() {
  for (int i = 0; i < c_.node->size(); ++i) {
    ControlPage& page = c_.node->control(i);
    if (page.left.value.load(std::memory_order_acquire) == 0) continue;
    if (page.finished.value.load(std::memory_order_acquire) < number_)
      return departed(c_.cluster->peers_of(c_.rank)[i]);
  }
  for (const Lane& lane : lanes_) {
    if (!lane.steps || !opened_) continue;
    const BoundStep& s = (*lane.steps)[lane.pc];
    if (s.kind == StepKind::kArrive && in_[s.link].link->peer_left) return departed(in_[s.link].link->id.src);
    if (s.kind == StepKind::kPut && out_[s.link].link->peer_left) return departed(out_[s.link].link->id.dst);
  }
}

void Execution::departed(int rank) {
  if (error_) return;
  Error e = make_error(
      twohopInvalidUsage,
      "rank {} has destroyed its communicator, but rank {} is in call {}, {}, which needs it. All ranks must make "
      "the same calls before they destroy",
      rank, c_.rank, number_, describe_signature(signature_));
  e.scope = Scope::kPeer;
  e.rank = rank;
  error_ = std::move(e);
}

void Execution::mismatch(int rank, uint64_t theirs) {
  if (error_) return;
  Error e =
      make_error(twohopInvalidUsage,
                 "call {} does not match: rank {} calls {}, rank {} calls {}. All ranks must make the same calls in "
                 "the same order; nothing was computed",
                 number_, c_.rank, describe_signature(signature_), rank, describe_signature(theirs));
  e.scope = Scope::kCommunicator;
  e.rank = rank;
  error_ = std::move(e);
}

}  // namespace twohop
