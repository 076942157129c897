// See memory_limits.hpp.
#include "collectives/plan/memory_limits.hpp"

#include <algorithm>

#include "collectives/plan/algorithm.hpp"

namespace twohop {
namespace {

constexpr uint64_t kPage = 4096;

struct Slots {
  uint64_t window = 1, inbox = 1;
};

/// Of the algorithm that has most of them.
Slots most_slots(const Cluster& cluster) {
  Slots most;
  for (const Algorithm& a : algorithms())
    for (const Collective c : kCollectives) {
      if (!a.supports(cluster, c)) continue;
      const Frame f = a.frame({&cluster, c, 0, {}});
      most.window = std::max(most.window, uint64_t(f.areas) * f.slots);
      most.inbox = std::max(most.inbox, uint64_t(f.put_slots) * f.chunks_per_put);
    }
  return most;
}

/// Many channels have as many chunks under way anyway, and doorbells have their company: with large ones too they would
/// only hold memory.
uint64_t largest_chunk(const MemorySettings& s) {
  constexpr uint64_t kOneSlotOfAllChannels = 1 << 20, kSmallest = 16 << 10;
  const uint64_t shared = kOneSlotOfAllChannels / static_cast<uint64_t>(s.channels);
  return std::min(s.chunk_bytes, std::max(shared, kSmallest));
}

uint64_t pages(uint64_t bytes) {
  return (bytes + kPage - 1) / kPage * kPage;
}

}  // namespace

LayoutLimits memory_limits(const Cluster& cluster, const MemorySettings& settings) {
  const Slots most = most_slots(cluster);
  const Depths depths;
  LayoutLimits limits;
  limits.chunk_bytes = largest_chunk(settings);
  limits.max_channels = settings.channels;
  const uint64_t put_bytes = static_cast<uint64_t>(depths.chunks_per_put) * limits.chunk_bytes;
  const uint64_t window = static_cast<uint64_t>(cluster.max_local_size() * depths.blocks) * put_bytes;
  const uint64_t inbox = static_cast<uint64_t>(depths.put_slots) * put_bytes;
  // Half the buffer for each parity of calls; an inbox at most a quarter of that.
  const uint64_t half = settings.buff_bytes / 2;
  limits.window_bytes = pages(std::max(most.window * kChunkAlign, std::min(half, window)));
  limits.inbox_bytes = pages(std::max(most.inbox * kChunkAlign, std::min(half / 4, inbox)));
  return limits;
}

}  // namespace twohop
