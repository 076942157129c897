// See execution.hpp. The datapath: gate, lanes, steps. What a call means is the schedule's business; what must be equal
// between ranks is compared in execution_verify.cpp.
#include "collectives/exec/execution.hpp"

#include <algorithm>
#include <cstring>

#include "base/check.hpp"
#include "device/flags.hpp"

namespace twohop {

Execution::Execution(ExecutionContext context) : c_(std::move(context)), one_shot_(find_algorithm("one-shot")) {
  static_assert(kMaxReduceSources <= 64, "a bit for each rank of a node");
  const LinkTable& mine = c_.tables[c_.node->me()];
  for (size_t i = 0; i < mine.out.size(); ++i) out_.push_back({.link = &c_.endpoint->out(i)});
  for (size_t i = 0; i < mine.in.size(); ++i) in_.push_back({.link = &c_.endpoint->in(i)});
}

/// Whether this rank's input goes on the wire from where it lies: it is registered, no other rank of the node needs it
/// in the window, and it is not scaled on the way. The other ranks need not do the same.
bool Execution::sends_directly(const Call& call) const {
  if (!c_.endpoint || c_.node->size() > 1 || scaled_ || call.count == 0) return false;
  if (call.collective == Collective::kBroadcast && call.root != c_.rank) return false;
  const uint64_t blocks =
      call.collective == Collective::kReduceScatter ? static_cast<uint64_t>(c_.cluster->nranks()) : 1;
  return c_.registrations->covers(call.send, blocks * call.count * type_size(call.type));
}

const BoundSchedule& Execution::schedule_for(const Algorithm& algorithm, const Call& call) {
  const bool direct = algorithm.can_be_direct && sends_directly(call);
  const auto key = std::make_tuple(&algorithm, call.collective, call.root, direct);
  auto it = schedules_.find(key);
  if (it == schedules_.end()) {
    const Request request{c_.cluster, call.collective, call.root, c_.depths};
    it = schedules_
             .emplace(key, twohop::bind(algorithm, request, direct, c_.rank, c_.node->addresses(), c_.tables,
                                        c_.limits.max_channels))
             .first;
  }
  return it->second;
}

void Execution::start(const Call& call, const Choice& choice, uint64_t number) {
  call_ = call;
  number_ = number;
  half_ = number & 1;
  signature_ = signature(call);
  scaled_ = scales_contributions(call);
  element_bytes_ = type_size(call.type);
  reduce_ = reduce_kernel(c_.isa, call.type, math_op(call.op));
  divisor_ = divisor_of(call, c_.cluster->nranks());
  unverified_ = (~uint64_t{0} >> (64 - c_.node->size())) & ~(uint64_t{1} << c_.node->me());
  opened_ = false;
  empty_sweeps_ = 0;
  error_.reset();
  lanes_.clear();
  small_ = is_small(call, choice);
  if (small_) return;
  schedule_ = &schedule_for(*choice.algorithm, call);
  LayoutLimits limits = c_.limits;
  limits.chunk_bytes = std::min(limits.chunk_bytes, choice.chunk_bytes);
  limits.max_channels = std::min(limits.max_channels, choice.channels);
  layout_ = Layout(schedule_->frame, *c_.cluster, call.count * element_bytes_, limits);
  if (c_.endpoint) c_.endpoint->limit_batch(choice.batch);
  places_ = places_of(call, schedule_->frame, layout_, limits);
  places_.half = static_cast<uint32_t>(half_);
  set_lanes();
  // Links stand in the order of their channels, as many in each.
  const auto all_channels = static_cast<size_t>(c_.limits.max_channels), used = static_cast<size_t>(layout_.channels());
  out_used_ = out_.size() / all_channels * used;
  in_used_ = in_.size() / all_channels * used;
  for (size_t i = 0; i < out_used_; ++i) out_[i].begin(number_, out_[i].link->posted);
  for (size_t i = 0; i < in_used_; ++i) in_[i].begin(number_, in_[i].link->released);
}

void Execution::set_lanes() {
  for (int channel = 0; channel < layout_.channels(); ++channel)
    for (size_t l = 0; l < schedule_->lanes[channel].size(); ++l) {
      const auto& steps = schedule_->lanes[channel][l];
      if (steps.empty()) continue;
      lanes_.push_back({.steps = &steps,
                        .counter = &c_.node->counter(c_.node->me(), channel, l),
                        .channel = static_cast<uint16_t>(channel),
                        .number = static_cast<uint16_t>(l)});
    }
  lanes_left_ = lanes_.size();
}

/// The memory half of this call was last used by the call before the last. All ranks of the node have finished that:
/// the last call ended here only after they had opened it, and they open a call after they have finished the one
/// before.
void Execution::open() {
  CallNotice& notice = c_.node->control(c_.node->me()).notices[half_];
  notice.signature = signature_;
  notice.scale = own_scale(call_, c_.cluster->nranks());
  notice.call.store(number_, std::memory_order_release);
  c_.node->wake_sleepers();
  opened_ = true;
  if (c_.trace) opened_at_ns_ = Trace::now_ns();
}

Result<Execution::Progress> Execution::progress() {
  if (small_) return progress_small();
  if (!opened_) open();
  bool some = false;
  for (Lane& lane : lanes_)
    if (lane.steps && !stands(lane)) some |= advance(lane);
  if (c_.endpoint) {
    if (auto flushed = c_.endpoint->flush(); !flushed) return flushed.error();
    auto polled = c_.endpoint->poll();
    if (!polled) return polled.error();
    some |= *polled;
    if (c_.trace) c_.trace->look_at_links();
  }
  if (some) {
    empty_sweeps_ = 0;
  } else if (++empty_sweeps_ > kSweepsBeforeLook) {
    verify_all();
    look_for_departed();
  }
  if (error_) return *error_;
  // A call that needs nothing of a local rank still waits until that rank makes the same call.
  if (lanes_left_ == 0 && sources_sent() && all_local_verified()) {
    finish();
    return Progress::kDone;
  }
  return some ? Progress::kSome : Progress::kNothing;
}

/// Still blocked by what it waited for when it was last looked at?
bool Execution::stands(const Lane& lane) {
  return lane.awaited && !reached(load_acquire(lane.awaited), lane.awaited_count);
}

/// Has the word reached the count? If not, the lane stands until it has.
bool Execution::await(Lane& lane, const uint64_t* word, uint64_t count) {
  const bool there = reached(load_acquire(word), count);
  lane.awaited = there ? nullptr : word;
  lane.awaited_count = count;
  return there;
}

/// Advances a lane until it blocks or has moved one chunk, so that all lanes and the network get their turn.
bool Execution::advance(Lane& lane) {
  const std::span<const BoundStep> steps = *lane.steps;
  bool some = false;
  Outcome outcome = Outcome::kCheap;
  while (outcome == Outcome::kCheap && lane.steps) {
    const BoundStep& s = steps[lane.pc];
    outcome = c_.trace ? traced_step(lane, s) : step(lane, s);
    if (outcome == Outcome::kBlocked) break;
    some = true;
    if (++lane.pc < steps.size()) continue;
    lane.pc = 0;
    if (++lane.round < layout_.rounds()) continue;
    lane.steps = nullptr;
    --lanes_left_;
  }
  if (signalled_) {
    c_.node->wake_sleepers();
    signalled_ = false;
  }
  return some;
}

Execution::Outcome Execution::step(Lane& lane, const BoundStep& s) {
  switch (s.kind) {
    case StepKind::kCopy:
      copy(lane, s);
      return Outcome::kCheap;
    case StepKind::kReduce:
      reduce(lane, s);
      return Outcome::kCheap;
    case StepKind::kPut:
      return put(lane, s) ? Outcome::kMovedData : Outcome::kBlocked;
    case StepKind::kRelease:
      c_.endpoint->release(s.link);
      return Outcome::kMovedData;
    case StepKind::kSignal:
      lane.counter->store(tag_of(number_, ++lane.signals), std::memory_order_release);
      signalled_ = true;
      return Outcome::kMovedData;
    default:
      return wait_is_over(lane, s) ? Outcome::kCheap : Outcome::kBlocked;
  }
}

bool Execution::wait_is_over(Lane& lane, const BoundStep& s) {
  const int64_t target = s.target.at(lane.round);
  if (target <= 0) return true;
  const auto count = static_cast<uint64_t>(target);
  if (s.kind == StepKind::kSent) return await(lane, &out_[s.link].link->sent, out_[s.link].now + count);
  if (s.kind == StepKind::kArrive)
    return await(lane, &in_[s.link].link->arrived, in_[s.link].now + count) && verify_in_link(s.link);
  return await(lane, s.counter, tag_of(number_, count)) && verify_local(s.local);
}

/// What other links have put into the inbox before the last call has been released; in the last call it went to the
/// other half, and in this one none of them is used.
bool Execution::inbox_is_free(const BoundStep& s) const {
  for (uint32_t i = s.first_sharing; i < s.first_sharing + s.sharing; ++i)
    if (out_[i].link->consumed < out_[i].before_last) return false;
  return true;
}

bool Execution::put(Lane& lane, const BoundStep& s) {
  const auto number = static_cast<uint64_t>(s.target.at(lane.round));
  const auto slots = static_cast<uint64_t>(schedule_->frame.put_slots);
  const LinkEnd<OutLink>& out = out_[s.link];
  const uint64_t must_be_consumed = number < slots ? out.before_last : out.now + number - slots + 1;
  if (!await(lane, &out.link->consumed, must_be_consumed)) return false;
  if (number == 0 && !inbox_is_free(s)) return false;

  PutPiece pieces[2];
  const int n = pieces_of_put(places_, s, lane.channel, lane.round, schedule_->frame.chunks, pieces);
  TWOHOP_CHECK(n > 0, "a put of {} chunks in more than two runs", s.srcs.size());
  PutRun runs[2];
  for (int i = 0; i < n; ++i) runs[i] = {pieces[i].source, pieces[i].inbox_offset, pieces[i].bytes};
  direct_puts_ += s.srcs.size() > 0 && s.srcs[0].space == Space::kInput;
  c_.endpoint->put(s.link, {number_, signature_}, {runs, static_cast<size_t>(n)});
  if (c_.trace) c_.trace->put(s.link, runs[0].bytes + (n > 1 ? runs[1].bytes : 0));
  return true;
}

void Execution::copy(const Lane& lane, const BoundStep& s) {
  const Extent extent = places_.output_extent(lane.channel, lane.round, s);
  if (extent.bytes == 0) return;
  std::byte* dst = places_.address(s.dst, lane.channel, lane.round, s, extent);
  const std::byte* src = places_.address(s.srcs[0], lane.channel, lane.round, s, extent);
  if (dst != src) std::memcpy(dst, src, extent.bytes);
}

void Execution::reduce(const Lane& lane, const BoundStep& s) {
  const Extent extent = places_.output_extent(lane.channel, lane.round, s);
  if (extent.bytes == 0) return;
  const void* srcs[kMaxReduceSources];
  Scalar scales[kMaxReduceSources];
  for (size_t i = 0; i < s.srcs.size(); ++i) {
    srcs[i] = places_.address(s.srcs[i], lane.channel, lane.round, s, extent);
    if (!scaled_) continue;
    const int raw = s.srcs[i].raw_local;
    scales[i] = raw < 0 ? one(call_.type) : c_.node->control(raw).notices[half_].scale;
  }
  reduce_(places_.address(s.dst, lane.channel, lane.round, s, extent), srcs, static_cast<int>(s.srcs.size()),
          scaled_ ? scales : nullptr, s.final ? divisor_ : 1, extent.bytes / element_bytes_);
}

bool Execution::sources_sent() const {
  if (!c_.endpoint) return true;
  for (size_t i = 0; i < out_used_; ++i)
    if (out_[i].link->sent != out_[i].link->posted) return false;
  return !c_.endpoint->output_pending();
}

void Execution::finish() {
  if (c_.trace) trace_call();
  // Nobody sleeps for this: it is looked at when a rank has left, or is late.
  c_.node->control(c_.node->me()).finished.value.store(number_, std::memory_order_release);
}

}  // namespace twohop
