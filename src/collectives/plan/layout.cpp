// See layout.hpp.
#include "collectives/plan/layout.hpp"

#include <algorithm>

#include "base/check.hpp"

namespace twohop {
namespace {

uint64_t ceil_div(uint64_t a, uint64_t b) {
  return (a + b - 1) / b;
}
uint64_t round_up(uint64_t a) {
  return ceil_div(a, kChunkAlign) * kChunkAlign;
}

}  // namespace

Layout::Layout(const Frame& frame, const Cluster& cluster, uint64_t buffer_bytes, const LayoutLimits& limits)
    : extents_{.collective = frame.collective,
               .shards = frame.shards,
               .chunks = frame.chunks,
               .chunks_per_block = frame.chunks_per_block,
               .buffer_bytes = buffer_bytes,
               .rank_at = cluster.rank_at.data(),
               .rank_at_stride = cluster.max_local_size()} {
  const uint64_t window_slots = uint64_t(frame.areas) * frame.slots;
  const uint64_t inbox_slots = uint64_t(frame.put_slots) * frame.chunks_per_put;
  uint64_t largest =
      std::min({limits.chunk_bytes, limits.window_bytes / window_slots, limits.inbox_bytes / inbox_slots});
  largest = largest / kChunkAlign * kChunkAlign;
  TWOHOP_CHECK(largest > 0, "window {} B for {} slots, inbox {} B for {}", limits.window_bytes, window_slots,
               limits.inbox_bytes, inbox_slots);
  const uint64_t wanted = ceil_div(buffer_bytes, std::max<uint64_t>(limits.bytes_per_channel, 1));
  channels_ = static_cast<int>(std::clamp<uint64_t>(wanted, 1, limits.max_channels));
  extents_.share_bytes = round_up(ceil_div(buffer_bytes, channels_));
  const uint64_t chunks_per_round = extents_.blocked() ? frame.chunks_per_block : uint64_t(frame.shards) * frame.chunks;
  rounds_ = static_cast<int64_t>(std::max<uint64_t>(1, ceil_div(extents_.share_bytes, chunks_per_round * largest)));
  extents_.chunk_bytes = std::max(kChunkAlign, round_up(ceil_div(extents_.share_bytes, rounds_ * chunks_per_round)));
}

}  // namespace twohop
