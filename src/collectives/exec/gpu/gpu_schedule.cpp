// See gpu_schedule.hpp.
#include "collectives/exec/gpu/gpu_schedule.hpp"

#include <algorithm>
#include <cstring>

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

}  // namespace

Result<GpuSchedule> upload(GpuRuntime& runtime, int device, const BoundSchedule& schedule, const WindowMap& map) {
  GpuSchedule made;
  made.frame = schedule.frame;
  const int channels = static_cast<int>(schedule.lanes.size());
  std::vector<LoopLane> lanes = loop_lanes(schedule, channels, map);
  for (int n = 0; n <= channels; ++n)
    made.lanes_of_channels.push_back(static_cast<uint32_t>(
        std::count_if(lanes.begin(), lanes.end(), [&](const LoopLane& l) { return l.channel < n; })));

  const size_t bytes = image_bytes(lanes);
  auto memory = runtime.device_memory(device, bytes);
  if (!memory) return memory.error();
  made.memory = std::move(*memory);
  Image image(bytes, made.memory->data());
  for (LoopLane& lane : lanes) lane.steps = add_steps(image, lane);
  made.lanes = image.add(lanes.data(), lanes.size());
  if (auto copied = runtime.upload(device, made.memory->data(), image.data(), image.size()); !copied)
    return copied.error();
  return Result<GpuSchedule>(std::move(made));
}

}  // namespace twohop
