// A rank's program without the copies that stage its input for the wire: for calls whose send buffer is registered with
// the network. Pure; what comes out is proved by the checker like any other program.
#pragma once

#include "collectives/plan/algorithm.hpp"
#include "collectives/plan/schedule.hpp"

namespace twohop {

/// For a rank that is alone on its node, so that nobody else reads its window. A window slot that is filled by a plain
/// copy of the input is not filled: who reads it reads the input. Where that is a put, whatever writes the same chunk
/// of the output waits until the put is sent, so that it is right in place too. Waits, signals and links stay as they
/// are: the other ranks need not know. Sends contributions as they are, so not for calls that scale them.
Program without_staging(Program program, int rank, int chunks);

/// For a rank that has others on its node, which may read its registered input in the place of the window that it would
/// be copied to (exec/loop). Is every chunk of it read by one step only, of this rank or another? Then nobody reads a
/// chunk any more when the rank gets that chunk's result, which was made by that step, and the call may be in place.
bool reads_inputs_once(const Algorithm& algorithm, const Request& request, int rank);

}  // namespace twohop
