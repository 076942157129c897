// See lane_launcher.hpp.
#include "collectives/exec/cuda/lane_launcher.hpp"

#include <algorithm>

#include "collectives/exec/cuda/lane_kernels.hpp"
#include "device/cuda/cuda_error.hpp"
#include "device/reduce.hpp"

namespace twohop {
namespace {

constexpr int kBlockThreads = kLaneThreads * kLanesPerBlock;

/// Asking for a function's attributes loads it, where loading is lazy.
Result<> load(twohopDataType_t type) {
  cudaFuncAttributes attributes{};
  if (cudaError_t e = cudaFuncGetAttributes(&attributes, lane_kernel_of(type)); e != cudaSuccess)
    return cuda_error(e, "cannot load the kernel for {}; twohop has code for sm_80, sm_90 and PTX for later GPUs",
                      type_name(type));
  return {};
}

}  // namespace

Result<LaneLauncher> LaneLauncher::create() {
  int device = 0, sms = 0, cooperative = 0;
  for (cudaError_t e : {cudaGetDevice(&device), cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device),
                        cudaDeviceGetAttribute(&cooperative, cudaDevAttrCooperativeLaunch, device)})
    if (e != cudaSuccess) return cuda_error(e, "cannot ask GPU {} for its size", device);
  if (!cooperative)
    return make_error(twohopInvalidUsage, "GPU {} cannot keep all blocks of a kernel resident (no cooperative launch)",
                      device);
  int fewest = kBlockThreads;
  for (int t = 0; t < TWOHOP_NUM_DATATYPES; ++t) {
    const auto type = static_cast<twohopDataType_t>(t);
    if (auto loaded = load(type); !loaded) return loaded.error();
    int blocks = 0;
    if (cudaError_t e = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, lane_kernel_of(type), kBlockThreads, 0);
        e != cudaSuccess)
      return cuda_error(e, "cannot ask for the occupancy of the kernel for {}", type_name(type));
    fewest = std::min(fewest, blocks);
  }
  LaneLauncher launcher;
  launcher.resident_lanes_ = twohop::resident_lanes(sms, fewest, kLanesPerBlock);
  return launcher;
}

Result<> LaneLauncher::launch(twohopDataType_t type, const LoopCall& call, cudaStream_t stream) const {
  const dim3 blocks((call.lane_count + kLanesPerBlock - 1) / kLanesPerBlock), threads(kBlockThreads);
  void* arguments[] = {const_cast<LoopCall*>(&call)};
  // Cooperative, so that the driver starts all blocks or, on a GPU that others fill, none yet.
  if (cudaError_t e = cudaLaunchCooperativeKernel(lane_kernel_of(type), blocks, threads, arguments, 0, stream);
      e != cudaSuccess)
    return cuda_error(e, "cannot launch a call of {} lanes", call.lane_count);
  return {};
}

}  // namespace twohop
