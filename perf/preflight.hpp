// Can this run do its work to the end? Asked before anything is measured.
#pragma once

#include <cstddef>

#include "perf_options.hpp"
#include "session.hpp"

namespace twohop::perf {

/// Whether every rank has memory for calls of up to `largest` bytes, and rank 0 can write the --json file. All ranks
/// get the same answer; those that cannot have said why.
bool all_ranks_ready(const PerfOptions& options, const Session& session, size_t largest);

}  // namespace twohop::perf
