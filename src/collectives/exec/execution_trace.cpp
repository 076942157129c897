// Execution, third part: what a trace records of the steps. Without a trace nothing here runs.
#include "collectives/exec/execution.hpp"

namespace twohop {

Execution::Outcome Execution::traced_step(Lane& lane, const BoundStep& s) {
  const uint64_t before = Trace::now_ns();
  const Outcome outcome = step(lane, s);
  if (outcome == Outcome::kBlocked) {
    if (lane.blocked_since_ns == 0) lane.blocked_since_ns = before;
    return outcome;
  }
  Trace::Event event{.number = static_cast<uint64_t>(lane.round),
                     .channel = lane.channel,
                     .lane = lane.number,
                     .shard = s.shard,
                     .chunk = s.chunk};
  if (lane.blocked_since_ns != 0) {
    event.kind = Trace::Kind::kWaited;
    event.waited_for = static_cast<uint8_t>(s.kind);
    event.begin_ns = lane.blocked_since_ns;
    event.duration_ns = before - event.begin_ns;
    c_.trace->add(event);
    lane.blocked_since_ns = 0;
  }
  if (s.kind == StepKind::kCopy || s.kind == StepKind::kReduce) {
    event.kind = s.kind == StepKind::kCopy ? Trace::Kind::kCopy : Trace::Kind::kReduce;
    event.begin_ns = before;
    event.duration_ns = Trace::now_ns() - before;
    event.bytes = layout_.extent(Space::kOutput, lane.channel, lane.round, s.shard, static_cast<int>(s.chunk)).bytes;
    c_.trace->add(event);
  }
  return outcome;
}

/// As a lane would show it that copies, waits and folds: lane 0 of channel 0.
void Execution::trace_small(Trace::Kind kind, uint64_t begin_ns, uint64_t bytes) {
  Trace::Event event{.begin_ns = begin_ns, .duration_ns = Trace::now_ns() - begin_ns, .bytes = bytes, .kind = kind};
  if (kind == Trace::Kind::kWaited) event.waited_for = static_cast<uint8_t>(StepKind::kWait);
  c_.trace->add(event);
}

void Execution::trace_call() {
  c_.trace->add({.begin_ns = opened_at_ns_,
                 .duration_ns = Trace::now_ns() - opened_at_ns_,
                 .bytes = call_.count * element_bytes_,
                 .number = number_,
                 .kind = Trace::Kind::kCall});
}

}  // namespace twohop
