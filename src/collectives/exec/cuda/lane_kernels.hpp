// Which kernel runs the calls of a type, and how it is launched.
#pragma once

#include "twohop/twohop.h"

namespace twohop {

constexpr unsigned kLaneThreads = 128;  // of the group that runs one lane
constexpr unsigned kLanesPerBlock = 4;

/// A __global__ function of one argument, a LoopCall, for blocks of kLaneThreads * kLanesPerBlock threads.
const void* lane_kernel_of(twohopDataType_t type);

// By family, each in a file of its own; null for the types of others.
const void* integer_lane_kernel(twohopDataType_t type);
const void* float_lane_kernel(twohopDataType_t type);
const void* small_float_lane_kernel(twohopDataType_t type);

}  // namespace twohop
