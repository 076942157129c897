// See gpu_schedule.hpp.
#include "collectives/exec/gpu/gpu_schedule.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/log.hpp"
#include "collectives/exec/loop/loop_arguments.hpp"

namespace twohop {
namespace {

/// An image in host memory of what will lie at `base` in the GPU's.
class Image {
 public:
  Image(size_t bytes, std::byte* base) : bytes_(bytes), base_(base) {}
  /// Appends `count` elements; returns where they will lie.
  template <class T>
  const T* add(const T* from, size_t count) {
    const size_t at = end_;
    if (count > 0) std::memcpy(bytes_.data() + at, from, count * sizeof(T));
    end_ += (count * sizeof(T) + kCacheLine - 1) / kCacheLine * kCacheLine;
    return reinterpret_cast<const T*>(base_ + at);
  }
  template <class T>
  static size_t size_of(size_t count) {
    return (count * sizeof(T) + kCacheLine - 1) / kCacheLine * kCacheLine;
  }
  const std::byte* data() const { return bytes_.data(); }
  size_t size() const { return end_; }

 private:
  std::vector<std::byte> bytes_;
  std::byte* base_;
  size_t end_ = 0;
};

size_t image_bytes(const std::vector<LoopLane>& lanes) {
  size_t bytes = Image::size_of<LoopLane>(lanes.size());
  for (const LoopLane& lane : lanes) {
    bytes += Image::size_of<BoundStep>(lane.count);
    for (uint32_t i = 0; i < lane.count; ++i) bytes += Image::size_of<BoundRef>(lane.steps[i].srcs.count);
  }
  return bytes;
}

const BoundStep* add_steps(Image& image, const LoopLane& lane) {
  std::vector<BoundStep> steps(lane.steps, lane.steps + lane.count);
  for (BoundStep& s : steps) s.srcs.first = image.add(s.srcs.first, s.srcs.count);
  return image.add(steps.data(), steps.size());
}

/// As image_bytes, of a program that every channel runs.
size_t image_bytes(const Program& program, int channels) {
  size_t lanes = 0, bytes = 0;
  for (const auto& lane : program.lanes) {
    if (lane.empty()) continue;
    ++lanes;
    bytes += Image::size_of<BoundStep>(lane.size());
    for (const Step& s : lane) bytes += Image::size_of<BoundRef>(s.srcs.size());
  }
  const auto n = static_cast<size_t>(channels);
  return Image::size_of<LoopLane>(lanes * n) + bytes * n;
}

}  // namespace

ScheduleMemory ScheduleMemory::reserve(GpuRuntime& runtime, int device, std::span<const Algorithm* const> algorithms,
                                       const Cluster& cluster, const Depths& depths, int rank, int channels) {
  size_t bytes = 0;
  for (const Algorithm* a : algorithms)
    for (const Collective collective : kCollectives) {
      if (!a->supports(cluster, collective)) continue;
      const int roots = collective == Collective::kBroadcast ? std::min(cluster.nranks(), kRoots) : 1;
      for (int root = 0; root < roots; ++root)
        bytes += image_bytes(a->program({&cluster, collective, root, depths}, rank), channels);
    }
  bytes = std::min(bytes, kMostBytes);
  ScheduleMemory made;
  if (auto block = runtime.device_memory(device, bytes)) {
    made.blocks_.push_back(std::move(*block));
    log_debug("rank {}: {} bytes for schedules on GPU {}", rank, bytes, device);
  } else {
    log_info("rank {}: {} bytes for schedules on GPU {} cannot be had now ({}): they are allocated by first calls",
             rank, bytes, device, block.error().message);
  }
  return made;
}

Result<std::byte*> ScheduleMemory::take(GpuRuntime& runtime, int device, size_t bytes) {
  if (blocks_.empty() || blocks_.back()->size() - used_ < bytes) {
    auto block = runtime.device_memory(device, bytes);
    if (!block) return block.error();
    blocks_.push_back(std::move(*block));
    used_ = 0;
  }
  return blocks_.back()->data() + std::exchange(used_, used_ + bytes);
}

Result<GpuSchedule> upload(GpuRuntime& runtime, int device, const BoundSchedule& schedule, const WindowMap& map,
                           ScheduleMemory& memory) {
  GpuSchedule made;
  made.frame = schedule.frame;
  const int channels = static_cast<int>(schedule.lanes.size());
  std::vector<LoopLane> lanes = loop_lanes(schedule, channels, map);
  for (int n = 0; n <= channels; ++n)
    made.lanes_of_channels.push_back(static_cast<uint32_t>(
        std::count_if(lanes.begin(), lanes.end(), [&](const LoopLane& l) { return l.channel < n; })));

  const size_t bytes = image_bytes(lanes);
  auto at = memory.take(runtime, device, bytes);
  if (!at) return at.error();
  Image image(bytes, *at);
  for (LoopLane& lane : lanes) lane.steps = add_steps(image, lane);
  made.lanes = image.add(lanes.data(), lanes.size());
  if (auto copied = runtime.upload(device, *at, image.data(), image.size()); !copied) return copied.error();
  return Result<GpuSchedule>(std::move(made));
}

}  // namespace twohop
