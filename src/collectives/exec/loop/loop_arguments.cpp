// See loop_arguments.hpp.
#include "collectives/exec/loop/loop_arguments.hpp"

#include "collectives/exec/call_places.hpp"

namespace twohop {

std::vector<LoopLane> loop_lanes(const BoundSchedule& schedule, int channels, const WindowMap& map) {
  std::vector<LoopLane> lanes;
  for (int channel = 0; channel < channels; ++channel)
    for (size_t l = 0; l < schedule.lanes[channel].size(); ++l) {
      const auto& steps = schedule.lanes[channel][l];
      if (steps.empty()) continue;
      lanes.push_back({.steps = steps.data(),
                       .count = static_cast<uint32_t>(steps.size()),
                       .channel = static_cast<uint16_t>(channel),
                       .number = static_cast<uint16_t>(l),
                       .counter = map.counter(channel, l)});
    }
  return lanes;
}

void set_arguments(LoopCall& to, const Call& call, const Frame& frame, const Layout& layout, const LayoutLimits& limits,
                   int nranks) {
  to.places = places_of(call, frame, layout, limits);
  to.frame_chunks = frame.chunks;
  to.rounds = layout.rounds();
  to.signature = signature(call);
  to.scale = own_scale(call, nranks);
  to.one = one(call.type);
  to.scaled = scales_contributions(call);
  to.op = math_op(call.op);
  to.divisor = divisor_of(call, nranks);
}

std::optional<Error> fault_of(const LoopReport& report, const std::vector<int>& local_ranks,
                              const std::vector<LinkId>& in_links, int rank) {
  const auto fault = static_cast<LoopFault>(load_acquire(&report.fault));
  if (fault == LoopFault::kNone) return std::nullopt;
  if (fault == LoopFault::kPutTooScattered)
    return make_error(twohopInternalError, "rank {}: a put of call {} lies in more than two pieces", rank, report.call);
  if (fault == LoopFault::kUnknownRegion) {
    Error e = make_error(twohopRemoteError,
                         "rank {}: rank {} says that its data of call {} lies in registered GPU memory that this rank "
                         "does not know",
                         rank, local_ranks[report.who], report.call);
    e.scope = Scope::kCommunicator;
    e.rank = local_ranks[report.who];
    return e;
  }
  const int other = fault == LoopFault::kMismatchLocal ? local_ranks[report.who] : in_links[report.who].src;
  Error e = make_error(twohopInvalidUsage,
                       "call {} does not match: rank {} calls {}, rank {} calls {}. All ranks must make the same calls "
                       "in the same order; nothing was computed",
                       report.call, rank, describe_signature(report.ours), other, describe_signature(report.theirs));
  e.scope = Scope::kCommunicator;
  e.rank = other;
  return e;
}

}  // namespace twohop
