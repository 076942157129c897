// GpuSchedule: a bound schedule in a GPU's memory. The same steps as the host's, with the pointers between them made to
// point to where they lie there.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "collectives/exec/bound_schedule.hpp"
#include "collectives/exec/gpu/gpu_runtime.hpp"
#include "collectives/plan/algorithm.hpp"

namespace twohop {

/// Where schedules lie. What a communicator's calls are likely to need is reserved before the first of them runs: a
/// call that allocates may wait for a kernel that waits for it.
class ScheduleMemory {
 public:
  /// For all collectives by these algorithms, broadcasts from the first kRoots ranks, as far as that is not too much to
  /// keep for calls that may never come.
  static constexpr int kRoots = 64;
  static constexpr size_t kMostBytes = 64 << 20;
  static ScheduleMemory reserve(GpuRuntime& runtime, int device, std::span<const Algorithm* const> algorithms,
                                const Cluster& cluster, const Depths& depths, int rank, int channels);
  /// Of what is reserved, and allocated where that does not suffice.
  Result<std::byte*> take(GpuRuntime& runtime, int device, size_t bytes);

 private:
  std::vector<std::unique_ptr<GpuMemory>> blocks_;  // the last one is used from its start
  size_t used_ = 0;
};

struct GpuSchedule {
  Frame frame;
  const LoopLane* lanes = nullptr;  // on the GPU: lanes, then steps, then their sources
  /// [n]: lanes of the first n channels, which come first.
  std::vector<uint32_t> lanes_of_channels;
  /// What the input's chunks are read by (reads_inputs_once in plan/direct.hpp).
  bool reads_inputs_once = false;
};

Result<GpuSchedule> upload(GpuRuntime& runtime, int device, const BoundSchedule& schedule, const WindowMap& map,
                           ScheduleMemory& memory);

}  // namespace twohop
