// LaneLauncher: launches calls of the device loop on one GPU. Everything that could make CUDA load or allocate while a
// kernel spins is done when it is made.
#pragma once

#include <cuda_runtime_api.h>

#include "base/result.hpp"
#include "collectives/exec/loop/loop_call.hpp"

namespace twohop {

class LaneLauncher {
 public:
  /// Loads the kernels of all types into the current device's context and asks how many of their blocks fit on it at
  /// the same time.
  static Result<LaneLauncher> create();

  /// Lanes whose blocks are resident together, whatever the type.
  uint32_t resident_lanes() const { return resident_lanes_; }

  /// Enqueues the call on `stream`; returns at once. Pre: call.lane_count <= resident_lanes().
  Result<> launch(twohopDataType_t type, const LoopCall& call, cudaStream_t stream) const;

 private:
  uint32_t resident_lanes_ = 0;
};

/// How many lanes fit, when `blocks_per_sm` blocks of a kernel do.
constexpr uint32_t resident_lanes(int sms, int blocks_per_sm, uint32_t lanes_per_block) {
  return sms <= 0 || blocks_per_sm <= 0
             ? 0
             : static_cast<uint32_t>(sms) * static_cast<uint32_t>(blocks_per_sm) * lanes_per_block;
}

}  // namespace twohop
