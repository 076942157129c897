// GpuSchedule: a bound schedule in a GPU's memory. The same steps as the host's, with the pointers between them made to
// point to where they lie there.
#pragma once

#include <memory>
#include <vector>

#include "collectives/exec/bound_schedule.hpp"
#include "collectives/exec/gpu/gpu_runtime.hpp"

namespace twohop {

struct GpuSchedule {
  Frame frame;
  std::shared_ptr<GpuMemory> memory;  // lanes, then steps, then their sources
  const LoopLane* lanes = nullptr;    // on the GPU
  /// [n]: lanes of the first n channels, which come first.
  std::vector<uint32_t> lanes_of_channels;
  /// What the input's chunks are read by (reads_inputs_once in plan/direct.hpp).
  bool reads_inputs_once = false;
};

Result<GpuSchedule> upload(GpuRuntime& runtime, int device, const BoundSchedule& schedule, const WindowMap& map);

}  // namespace twohop
