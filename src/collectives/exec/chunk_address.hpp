// Where does the chunk of a step lie? The address arithmetic that host and device code share.
#pragma once

#include "collectives/exec/bound_step.hpp"
#include "collectives/plan/chunk_extents.hpp"

namespace twohop {

/// What the addresses of one call depend on.
struct CallPlaces {
  ChunkExtents extents;
  const std::byte* send = nullptr;
  std::byte* recv = nullptr;
  uint64_t window_bytes = 0, inbox_bytes = 0;  // of one half
  int32_t slots = 1, put_slots = 1;            // of the frame
  int32_t chunks_per_put = 1;
  uint32_t half = 0;  // 0 or 1: the call's parity

  /// Of an inbox, from its start.
  constexpr uint64_t put_offset(uint64_t number) const {
    return half * inbox_bytes + number % put_slots * (chunks_per_put * extents.chunk_bytes);
  }
  constexpr Extent output_extent(int channel, int64_t round, const BoundStep& s) const {
    return extents.extent(Space::kOutput, channel, round, s.shard, static_cast<int>(s.chunk));
  }
  constexpr std::byte* address(const BoundRef& ref, int channel, int64_t round, const BoundStep& s,
                               const Extent& output) const {
    return address(ref, channel, round, s.shard, static_cast<int>(s.chunk), output);
  }
  /// `output` is where the chunk lies in the output buffer.
  constexpr std::byte* address(const BoundRef& ref, int channel, int64_t round, int shard, int chunk,
                               const Extent& output) const {
    switch (ref.space) {
      case Space::kInput:
        return const_cast<std::byte*>(send) + extents.extent(Space::kInput, channel, round, shard, chunk).offset;
      case Space::kOutput:
        return recv + output.offset;
      case Space::kWindow: {
        const auto slot = static_cast<uint64_t>(ref.index.at(round)) % slots;
        return ref.base + half * window_bytes + (ref.first_slot + slot) * extents.chunk_bytes;
      }
      case Space::kInbox:
        return ref.base + put_offset(static_cast<uint64_t>(ref.index.at(round))) + ref.part * extents.chunk_bytes;
    }
    return nullptr;
  }
};

/// One contiguous piece of a put: where it lies and where it goes in the link's inbox.
struct PutPiece {
  const std::byte* source = nullptr;
  uint64_t inbox_offset = 0;
  uint64_t bytes = 0;
};

/// The pieces of put `number`, at most two since a range of chunks wraps at most once; one at least, an empty one if
/// need be, since a put of nothing is a message all the same. Returns how many, or 0 when they would be more than two.
constexpr int pieces_of_put(const CallPlaces& at, const BoundStep& s, int channel, int64_t round, int frame_chunks,
                            PutPiece (&pieces)[2]) {
  const uint64_t slot = at.put_offset(static_cast<uint64_t>(s.target.at(round)));
  int n = 0;
  for (uint32_t i = 0; i < s.srcs.count; ++i) {
    const int chunk = static_cast<int>((s.chunk + i) % static_cast<uint32_t>(frame_chunks));
    const Extent extent = at.extents.extent(Space::kOutput, channel, round, s.shard, chunk);
    const std::byte* source = at.address(s.srcs[i], channel, round, s.shard, chunk, extent);
    const uint64_t offset = slot + i * at.extents.chunk_bytes;
    PutPiece* last = n > 0 ? &pieces[n - 1] : nullptr;
    if (last && last->inbox_offset + last->bytes == offset && last->source + last->bytes == source) {
      last->bytes += extent.bytes;
    } else if (!last || extent.bytes > 0) {
      if (n == 2) return 0;
      pieces[n++] = {source, offset, extent.bytes};
    }
  }
  if (n == 0) pieces[n++] = {nullptr, slot, 0};
  return n;
}

}  // namespace twohop
