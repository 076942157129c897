// How much memory does one call have on one channel?
//
// As much as the ring over the nodes needs with the largest chunks. Other algorithms, which have more slots, get by
// with smaller chunks: those that put several chunks at once put as many bytes then, and one-shot is for small buffers.
// Where nodes are many, the log steps' reduce-scatter and all-gather, whose puts are single chunks, are left with small
// ones: long calls of those are for the ring. So memory does not depend on which algorithms a table names, and the
// tuner knows what calls will find.
#pragma once

#include "collectives/plan/layout.hpp"

namespace twohop {

/// What the user says.
struct MemorySettings {
  uint64_t buff_bytes = 4 << 20;     // TWOHOP_BUFFSIZE: of a channel, both parities of calls
  uint64_t chunk_bytes = 128 << 10;  // TWOHOP_CHUNK_BYTES
  int channels = 1;
};

/// No more than the settings say, but enough for every algorithm: pages of the smallest chunks.
LayoutLimits memory_limits(const Cluster& cluster, const MemorySettings& settings);

}  // namespace twohop
