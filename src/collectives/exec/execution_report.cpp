// Execution, fourth part: saying where a call stands that does not get on.
#include <fmt/format.h>

#include "collectives/exec/execution.hpp"

namespace twohop {
namespace {

std::string entry_of(int rank) {
  return fmt::format("rank {} to enter the call", rank);
}

}  // namespace

void Execution::look_at_lanes() {
  const auto now = std::chrono::steady_clock::now();
  for (Lane& lane : lanes_) {
    if (lane.pc == lane.seen_pc && lane.round == lane.seen_round) continue;
    lane.seen_pc = lane.pc;
    lane.seen_round = lane.round;
    lane.still_since = now;
  }
}

const Execution::Lane* Execution::first_waiting() const {
  for (const Lane& lane : lanes_)
    if (lane.steps && blocking_rank(lane) >= 0) return &lane;
  return nullptr;
}

int Execution::waits_for() const {
  if (!opened_) return slowest_of_node();
  if (small_) return first_absent();
  const Lane* lane = first_waiting();
  return lane ? blocking_rank(*lane) : -1;
}

std::string Execution::where_it_waits() const {
  const std::string call = fmt::format("call {} {}", number_, describe_signature(signature_));
  if (small_)
    return first_absent() < 0 ? call + " is ready to go on"
                              : fmt::format("{} waits for {}", call, entry_of(first_absent()));
  if (const Lane* lane = first_waiting()) {
    const BoundStep& s = (*lane->steps)[lane->pc];
    return fmt::format("{} waits for {} (channel {}, lane {}, round {} of {}, {})", call, what_it_waits_for(*lane),
                       lane->channel, lane->number, lane->round + 1, layout_.rounds(), step_name(s.kind));
  }
  return call + (lanes_left_ == 0 ? " waits until its last messages are sent, or ranks of its node enter it"
                                  : " is ready to go on");
}

std::string Execution::hang_table() const {
  std::string text = fmt::format("  {:>7} {:>4} {:>9} {:>5} {:>5} {:<8} {:>7}  {}", "channel", "lane", "round", "shard",
                                 "chunk", "step", "since", "waits for");
  if (small_)
    for (int i = 0; i < c_.node->size(); ++i)
      if (unverified_ >> i & 1) text += fmt::format("\n  {:>50}  {}", "", entry_of(c_.cluster->peers_of(c_.rank)[i]));
  const auto now = std::chrono::steady_clock::now();
  for (const Lane& lane : lanes_) {
    if (!lane.steps) continue;
    const BoundStep& s = (*lane.steps)[lane.pc];
    const double since_s = std::chrono::duration<double>(now - lane.still_since).count();
    text += fmt::format("\n  {:>7} {:>4} {:>4}/{:<4} {:>5} {:>5} {:<8} {:>6.1f}s  {}", lane.channel, lane.number,
                        lane.round + 1, layout_.rounds(), s.shard, s.chunk, step_name(s.kind),
                        lane.seen_round < 0 ? 0.0 : since_s, what_it_waits_for(lane));
  }
  return text;
}

/// The rank of the node that has finished the fewest calls.
int Execution::slowest_of_node() const {
  int slowest = c_.node->me();
  for (int i = 0; i < c_.node->size(); ++i)
    if (c_.node->control(i).finished.value.load(std::memory_order_acquire) <
        c_.node->control(slowest).finished.value.load(std::memory_order_acquire))
      slowest = i;
  return c_.cluster->peers_of(c_.rank)[slowest];
}

/// -1: it waits for itself, for nobody, or not at all.
int Execution::blocking_rank(const Lane& lane) const {
  const BoundStep& s = (*lane.steps)[lane.pc];
  switch (s.kind) {
    case StepKind::kWait:
      return s.local == c_.node->me() ? -1 : c_.cluster->peers_of(c_.rank)[s.local];
    case StepKind::kArrive:
      return in_[s.link].link->id.src;
    case StepKind::kPut:
    case StepKind::kSent:
      return out_[s.link].link->id.dst;
    default:
      return -1;
  }
}

std::string Execution::what_it_waits_for(const Lane& lane) const {
  const BoundStep& s = (*lane.steps)[lane.pc];
  const int64_t target = s.target.at(lane.round);
  const int rank = blocking_rank(lane);
  switch (s.kind) {
    case StepKind::kWait:
      return fmt::format("signal {} of rank {}, lane {}", target, rank < 0 ? c_.rank : rank, s.lane);
    case StepKind::kArrive:
      return fmt::format("put {} of rank {}", target, rank);
    case StepKind::kPut:
      return fmt::format("credit of rank {} for put {}", rank, target);
    case StepKind::kSent:
      return fmt::format("put {} to rank {} to be sent", target, rank);
    default:
      return "nothing";
  }
}

}  // namespace twohop
