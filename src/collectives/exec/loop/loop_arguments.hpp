// From a call of the API to the arguments of the device loop: what does not depend on where the memory is.
#pragma once

#include <optional>
#include <vector>

#include "collectives/exec/bound_schedule.hpp"
#include "collectives/exec/call.hpp"
#include "collectives/exec/loop/loop_call.hpp"
#include "collectives/plan/layout.hpp"

namespace twohop {

/// The lanes of `schedule` that a call with `channels` channels runs; empty ones are left out. `counter_of` as in
/// WindowMap. Their steps lie in the schedule.
std::vector<LoopLane> loop_lanes(const BoundSchedule& schedule, int channels, const WindowMap& map);

/// Fills in the part of `to` that comes from the call: places, rounds, signature, operation, scales.
void set_arguments(LoopCall& to, const Call& call, const Frame& frame, const Layout& layout, const LayoutLimits& limits,
                   int nranks);

/// What the report of a call says, for the user; nothing while it says nothing.
std::optional<Error> fault_of(const LoopReport& report, const std::vector<int>& local_ranks,
                              const std::vector<LinkId>& in_links, int rank);

}  // namespace twohop
