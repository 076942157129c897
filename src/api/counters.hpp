// A communicator's counters as the C API gives them.
#pragma once

#include "collectives/exec/communicator.hpp"

namespace twohop {

/// Fills as many of the caller's fields as both know; devices are asked only for fields that the caller has.
/// `from` is what `comm` had counted at the end of a call.
Result<> fill_counters(const CommCounters& from, const Communicator& comm, twohopCounters_t* counters);

}  // namespace twohop
