// Layout: which bytes of the user's buffers a chunk is, and how large chunks are. Pure arithmetic, the same on all
// ranks.
#pragma once

#include <cstdint>

#include "collectives/plan/chunk_extents.hpp"
#include "collectives/plan/cluster.hpp"
#include "collectives/plan/schedule.hpp"

namespace twohop {

constexpr uint64_t kChunkAlign = 128;  // chunks are multiples of it, but for the last one

/// Memory that a communicator has for one call and channel, and the cap on a chunk. Bytes.
struct LayoutLimits {
  uint64_t window_bytes = 2 << 20;  // all areas of a window
  uint64_t inbox_bytes = 1 << 20;   // one link's inbox
  uint64_t chunk_bytes = 128 << 10;
  int max_channels = 1;
  uint64_t bytes_per_channel = 128 << 10;  // a further channel is used only for so much more data
};

class Layout {
 public:
  Layout() = default;
  /// `buffer_bytes` is count * element size as the user gives it: for reduce-scatter and all-gather the bytes of one
  /// rank's block.
  Layout(const Frame& frame, const Cluster& cluster, uint64_t buffer_bytes, const LayoutLimits& limits);

  int channels() const { return channels_; }
  int64_t rounds() const { return rounds_; }
  uint64_t chunk_bytes() const { return extents_.chunk_bytes; }

  /// The chunk's bytes in the input or output buffer (`space`). Empty (0 bytes) past the end of the data.
  Extent extent(Space space, int channel, int64_t round, int shard, int chunk) const {
    return extents_.extent(space, channel, round, shard, chunk);
  }
  /// The same arithmetic for who has no Layout: a GPU. Points into the cluster.
  const ChunkExtents& extents() const { return extents_; }

 private:
  ChunkExtents extents_{.chunk_bytes = kChunkAlign};
  int64_t rounds_ = 1;
  int channels_ = 1;
};

}  // namespace twohop
