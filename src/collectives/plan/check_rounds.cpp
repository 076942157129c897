// See check_rounds.hpp.
#include "collectives/plan/check_rounds.hpp"

#include <algorithm>

namespace twohop {

bool rounds_repeat(std::span<const uint64_t> digests, const Depths& depths) {
  const size_t needed = lookback_rounds(depths) + 1;
  if (digests.size() < needed) return false;
  const auto last = digests.last(needed);
  return std::all_of(last.begin(), last.end(), [&](uint64_t d) { return d == last.front(); });
}

void RoundView::value(Digest& digest, const CheckMemory::Cell& cell) const {
  const ChunkName& chunk = cell.value.chunk;
  for (const int64_t x : {int64_t{chunk.call}, cell.fresh() ? 0 : chunk.round - round_, int64_t{chunk.shard},
                          int64_t{chunk.index}, int64_t{cell.value.ranks}})
    digest.add(static_cast<uint64_t>(x));
  digest.add(cell.written.thread);
  digest.add(relative(cell.written));
}

void RoundView::value_and_reads(Digest& digest, const CheckMemory& memory, const CheckMemory::Cell& cell) const {
  value(digest, cell);
  uint64_t reads = 0;  // a sum: their order may be an accident
  for (int32_t i = cell.reads; i >= 0; i = memory.read_at(i).next) {
    Digest read;
    read.add(memory.read_at(i).event.thread);
    read.add(relative(memory.read_at(i).event));
    reads += read.value();
  }
  digest.add(reads);
}

}  // namespace twohop
