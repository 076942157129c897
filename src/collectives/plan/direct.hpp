// A rank's program without the copies that stage its input for the wire: for calls whose send buffer is registered with
// the network. Pure; what comes out is proved by the checker like any other program.
#pragma once

#include "collectives/plan/schedule.hpp"

namespace twohop {

/// For a rank that is alone on its node, so that nobody else reads its window. A window slot that is filled by a plain
/// copy of the input is not filled: who reads it reads the input. Where that is a put, whatever writes the same chunk
/// of the output waits until the put is sent, so that it is right in place too. Waits, signals and links stay as they
/// are: the other ranks need not know. Sends contributions as they are, so not for calls that scale them.
Program without_staging(Program program, int rank, int chunks);

}  // namespace twohop
