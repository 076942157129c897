// Runs calls to completion: the only place that waits. Spins briefly, yields, then sleeps in poll.
#pragma once

#include <chrono>
#include <span>

#include "collectives/exec/communicator.hpp"

namespace twohop {

/// The calls of one communicator, in order; the caller's memory.
struct Work {
  Communicator* comm = nullptr;
  std::span<const Call> calls;

  // run_all's own.
  size_t next = 0;
  bool moved = true;      // since the deadline was last looked at
  bool reported = false;  // that it does not move
  bool compared = false;  // with what the others do (Communicator::compare_places)
  std::chrono::steady_clock::time_point still_since{};
};

/// Runs all calls of all communicators together (one thread may hold several ranks) and returns the first error. A
/// communicator whose call fails is failed with that error, and its remaining calls are dropped; the others go on.
/// No communicator may appear twice.
Result<> run_all(std::span<Work> work);
Result<> run_one(Communicator& comm, const Call& call);

}  // namespace twohop
