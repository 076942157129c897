// Which bytes of the user's buffers is a chunk? The arithmetic alone, on plain numbers, so that host and device code do
// the same; layout.hpp chooses the numbers.
#pragma once

#include <cstdint>

#include "collectives/plan/schedule.hpp"

namespace twohop {

struct Extent {
  uint64_t offset = 0, bytes = 0;
};

struct ChunkExtents {
  Collective collective = Collective::kAllReduce;
  int32_t shards = 1, chunks = 1, chunks_per_block = 1;  // of the frame
  uint64_t buffer_bytes = 0, share_bytes = 0, chunk_bytes = 0;
  const int32_t* rank_at = nullptr;  // reduce-scatter, all-gather: [node][local], -1 where a node has no such rank
  int32_t rank_at_stride = 0;        // locals of a node in it

  constexpr bool blocked() const {
    return collective == Collective::kReduceScatter || collective == Collective::kAllGather;
  }
  /// Is `space` the buffer with one block per rank (not the one with this rank's block only)?
  constexpr bool has_all_blocks(Space space) const {
    return (collective == Collective::kReduceScatter) == (space == Space::kInput);
  }
  /// The chunk's bytes in the input or output buffer (`space`). Empty (0 bytes) past the end of the data.
  constexpr Extent extent(Space space, int channel, int64_t round, int shard, int chunk) const {
    uint64_t position = 0, base = 0;
    if (!blocked()) {
      position = (uint64_t(round) * shards + shard) * chunks + chunk;
    } else {
      const int32_t rank = shard < rank_at_stride ? rank_at[chunk / chunks_per_block * rank_at_stride + shard] : -1;
      if (rank < 0) return {};
      position = uint64_t(round) * chunks_per_block + chunk % chunks_per_block;
      if (has_all_blocks(space)) base = uint64_t(rank) * buffer_bytes;
    }
    const uint64_t end = smaller(buffer_bytes, (uint64_t(channel) + 1) * share_bytes);
    const uint64_t start = smaller(end, uint64_t(channel) * share_bytes + position * chunk_bytes);
    return {base + start, smaller(chunk_bytes, end - start)};
  }

 private:
  static constexpr uint64_t smaller(uint64_t a, uint64_t b) { return a < b ? a : b; }
};

}  // namespace twohop
