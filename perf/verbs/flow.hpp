// The messages of a row at one end: posts them, serves what arrives, and takes the times. Ends when both ends are done.
#pragma once

#include "result.hpp"
#include "row_end.hpp"

namespace twohop::verbs_perf {

/// Both ends call it at the same time, once per connected row. The data is verified after the clock has stopped.
/// Errors: a failed completion, the other end's end, no progress for row.patience_s.
Result<EndResult> run_flow(RowEnd& end, ControlLink& link);

}  // namespace twohop::verbs_perf
