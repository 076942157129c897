// Symbolic memory for the checker: what each cell (one chunk's place in a buffer, window or inbox) holds, who wrote it,
// who has read it, and the rules by which an access is a fault. Where a cell lies is check_cells.hpp's business.
#pragma once

#include <optional>
#include <vector>

#include "collectives/plan/checker.hpp"
#include "collectives/plan/rank_sets.hpp"
#include "collectives/plan/vector_clock.hpp"

namespace twohop {

/// Identity of a chunk: which call, round, shard, index.
struct ChunkName {
  int32_t call = -1, round = 0, shard = 0, index = 0;
  bool operator==(const ChunkName&) const = default;
};

struct Value {
  ChunkName chunk;
  RankSets::Id ranks = 0;   // whose contributions it holds
  int32_t raw_of = -1;      // the rank whose contribution it is, not yet scaled; -1: a partial result
  uint64_t expression = 0;  // digest of the operations that made it, in order: equal values have equal bits
  int32_t made_at = 0;      // by symmetry: the node that did these operations, counted from this one
  bool final = false;       // made by a final reduce
  bool is_void = false;     // an empty chunk: no bytes, so nobody need read it
};

enum class CellSpace : uint8_t { kUser, kWindow, kInbox };

/// Who does an access, for the rules and for the texts.
struct Access {
  Event event;
  ClockView clock;  // knowledge of the accessing thread, the event included
  bool by_put = false;
};

class CheckMemory {
 public:
  struct Read {
    Event event;
    bool by_put;
    int32_t next;  // -1: the last one
  };
  struct Cell {
    Value value;
    ChunkName lost;  // the last value that was overwritten unread
    Event written;   // count 0: before the call
    int32_t reads = -1;
    bool was_read = false;
    CellSpace space = CellSpace::kUser;
    bool fresh() const { return value.chunk.call < 0; }
  };

  explicit CheckMemory(size_t cells) : cells_(cells) {}

  const Cell& cell(size_t at) const { return cells_[at]; }
  const Read& read_at(int32_t i) const { return reads_[i]; }

  /// Sets a value that was there before the call: the user's input.
  void init(size_t at, const Value& value) { cells_[at].value = value; }
  /// Reads the value of `chunk`; a fault when it is not certainly there.
  std::optional<FaultKind> read(size_t at, const ChunkName& chunk, const Access& access);
  /// A write over a value that nobody has read in a window is a dead write if nobody reads it later; that is known only
  /// at the end, or when a reader comes in vain. So it is noted, and no fault yet.
  std::optional<FaultKind> write(size_t at, CellSpace space, const Value& value, const Access& access);
  /// Whether all that was done to so many cells is known, so that they may be cut into other slots.
  bool all_free(size_t from, size_t count, ClockView clock) const;
  /// A window or inbox slot is left with a value that nobody read.
  bool has_unread() const;
  bool has_dead_write() const { return dead_write_; }

 private:
  std::optional<FaultKind> overwrite_fault(const Cell& cell, const Value& value, const Access& access) const;
  void add_read(Cell& cell, const Access& access);
  void drop_reads(Cell& cell);

  std::vector<Cell> cells_;
  std::vector<Read> reads_;  // lists, one per cell, and the list of free ones
  int32_t free_ = -1;
  bool dead_write_ = false;
};

}  // namespace twohop
