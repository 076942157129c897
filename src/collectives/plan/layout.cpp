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
    : frame_(frame), cluster_(&cluster), buffer_bytes_(buffer_bytes) {
  const uint64_t window_slots = uint64_t(frame.areas) * frame.slots;
  const uint64_t inbox_slots = uint64_t(frame.put_slots) * frame.chunks_per_put;
  uint64_t largest =
      std::min({limits.chunk_bytes, limits.window_bytes / window_slots, limits.inbox_bytes / inbox_slots});
  largest = largest / kChunkAlign * kChunkAlign;
  TWOHOP_CHECK(largest > 0, "window {} B for {} slots, inbox {} B for {}", limits.window_bytes, window_slots,
               limits.inbox_bytes, inbox_slots);
  const uint64_t wanted = ceil_div(buffer_bytes, std::max<uint64_t>(limits.bytes_per_channel, 1));
  channels_ = static_cast<int>(std::clamp<uint64_t>(wanted, 1, limits.max_channels));
  share_bytes_ = round_up(ceil_div(buffer_bytes, channels_));
  const uint64_t chunks_per_round = blocked() ? frame.chunks_per_block : uint64_t(frame.shards) * frame.chunks;
  rounds_ = static_cast<int64_t>(std::max<uint64_t>(1, ceil_div(share_bytes_, chunks_per_round * largest)));
  chunk_bytes_ = std::max(kChunkAlign, round_up(ceil_div(share_bytes_, rounds_ * chunks_per_round)));
}

Extent Layout::extent(Space space, int channel, int64_t round, int shard, int chunk) const {
  uint64_t position = 0, base = 0;
  if (!blocked()) {
    position = (uint64_t(round) * frame_.shards + shard) * frame_.chunks + chunk;
  } else {
    const auto& ranks = cluster_->nodes[chunk / frame_.chunks_per_block];
    if (shard >= static_cast<int>(ranks.size())) return {};
    position = uint64_t(round) * frame_.chunks_per_block + chunk % frame_.chunks_per_block;
    if (has_all_blocks(space)) base = uint64_t(ranks[shard]) * buffer_bytes_;
  }
  const uint64_t end = std::min(buffer_bytes_, (uint64_t(channel) + 1) * share_bytes_);
  const uint64_t start = std::min(end, uint64_t(channel) * share_bytes_ + position * chunk_bytes_);
  return {base + start, std::min(chunk_bytes_, end - start)};
}

}  // namespace twohop
