// The kernel that runs a call: blocks of a few groups of warps, each group one lane of the device loop. Compiled by
// nvcc only; one .cu per family of types includes it.
//
// One block may stay resident on an SM for the whole call, and all blocks of a launch must be: lanes wait for each
// other. lane_kernels.hpp has the sizes, and who launches checks the occupancy.
#pragma once

#include "collectives/exec/cuda/lane_kernels.hpp"
#include "collectives/exec/loop/lane_loop.hpp"

namespace twohop {

/// kLaneThreads threads of a block, with a named barrier of their own.
class WarpGroup {
 public:
  __device__ WarpGroup(LoopScratch& scratch, unsigned group)
      : scratch_(scratch), thread_(threadIdx.x % kLaneThreads), barrier_(group + 1) {}
  __device__ unsigned thread() const { return thread_; }
  __device__ static constexpr unsigned threads() { return kLaneThreads; }
  __device__ LoopScratch& scratch() const { return scratch_; }
  __device__ void sync() const { asm volatile("bar.sync %0, %1;" ::"r"(barrier_), "n"(kLaneThreads) : "memory"); }
  /// The first looks are for a flag that is about to come; later ones leave the SM to the lanes that have data to move.
  __device__ static void pause(unsigned turns) {
    if (turns > 16) __nanosleep(turns > 1024 ? 500 : 40);
  }

 private:
  LoopScratch& scratch_;
  unsigned thread_, barrier_;
};

template <class E>
__global__ void __launch_bounds__(kLaneThreads* kLanesPerBlock, 1) lane_kernel(const __grid_constant__ LoopCall call) {
  __shared__ LoopScratch scratch[kLanesPerBlock];
  const unsigned group = threadIdx.x / kLaneThreads;
  const unsigned lane = blockIdx.x * kLanesPerBlock + group;
  if (lane >= call.lane_count) return;  // its named barrier has no other threads
  WarpGroup threads(scratch[group], group);
  LaneLoop<E, WarpGroup>(threads, call, lane).run();
}

}  // namespace twohop
