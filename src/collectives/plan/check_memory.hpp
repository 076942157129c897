// Symbolic memory for the checker: what each slot holds, who wrote it, who has read it.
#pragma once

#include <bit>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "collectives/plan/checker.hpp"
#include "collectives/plan/vector_clock.hpp"

namespace twohop {

/// A set of ranks.
class RankSet {
 public:
  explicit RankSet(int nranks = 0) : words_((nranks + 63) / 64) {}
  void add(int rank) { words_[rank / 64] |= uint64_t{1} << (rank % 64); }
  bool overlaps(const RankSet& o) const {
    for (size_t i = 0; i < words_.size(); ++i)
      if (words_[i] & o.words_[i]) return true;
    return false;
  }
  void unite(const RankSet& o) {
    for (size_t i = 0; i < words_.size(); ++i) words_[i] |= o.words_[i];
  }
  int size() const {
    int n = 0;
    for (uint64_t w : words_) n += std::popcount(w);
    return n;
  }
  bool operator==(const RankSet&) const = default;

 private:
  std::vector<uint64_t> words_;
};

/// Identity of a chunk: which call, round, shard, index.
struct ChunkName {
  int call = -1;
  int64_t round = 0;
  int shard = 0, index = 0;
  bool operator==(const ChunkName&) const = default;
};

struct Value {
  ChunkName chunk;
  RankSet ranks;
  bool is_void = false;  // an empty chunk: no bytes, so nobody need read it
};

enum class CellSpace : uint8_t { kUser, kWindow, kInbox };

/// Who does an access, for the rules and for the texts.
struct Access {
  Event event;
  const Clock* clock;  // knowledge of the accessing thread, the event included
  bool by_put = false;
};

class CheckMemory {
 public:
  using Key = uint64_t;

  /// Sets a value that was there before the call: the user's input.
  void init(Key key, Value value) { cells_[key] = Cell{std::move(value), std::nullopt, {}, true, CellSpace::kUser}; }

  /// Reads the value of `chunk`; a fault when it is not certainly there.
  std::optional<FaultKind> read(Key key, const ChunkName& chunk, const Access& access, const Value** out) {
    const auto it = cells_.find(key);
    if (it == cells_.end()) return FaultKind::kReadTooEarly;
    Cell& cell = it->second;
    if (cell.value.chunk != chunk) return FaultKind::kReadTooEarly;
    if (cell.written && !cell.written->known_to(*access.clock)) return FaultKind::kReadTooEarly;
    cell.was_read = true;
    cell.reads.push_back({access.event, access.by_put});
    *out = &cell.value;
    return std::nullopt;
  }

  std::optional<FaultKind> write(Key key, CellSpace space, Value value, const Access& access) {
    Cell& cell = cells_[key];
    const bool fresh = cell.value.chunk.call < 0;
    if (!fresh)
      if (auto fault = overwrite_fault(cell, value, access)) return fault;
    cell.value = std::move(value);
    cell.written = access.event;
    cell.reads.clear();
    cell.was_read = false;
    cell.space = space;
    return std::nullopt;
  }

  const Value* find(Key key) const {
    const auto it = cells_.find(key);
    return it == cells_.end() ? nullptr : &it->second.value;
  }

  /// A window or inbox slot left with a value that nobody read, if there is one.
  bool has_unread() const {
    for (const auto& [key, cell] : cells_)
      if (cell.space != CellSpace::kUser && !cell.was_read && !cell.value.is_void) return true;
    return false;
  }

 private:
  struct Read {
    Event event;
    bool by_put;
  };
  struct Cell {
    Value value;
    std::optional<Event> written;
    std::vector<Read> reads;
    bool was_read = false;
    CellSpace space = CellSpace::kUser;
  };

  static std::optional<FaultKind> overwrite_fault(const Cell& cell, const Value& value, const Access& access) {
    const bool overtakes = cell.value.chunk.call != value.chunk.call;
    for (const Read& r : cell.reads) {
      if (r.event.known_to(*access.clock)) continue;
      if (overtakes) return FaultKind::kCallOvertaken;
      if (cell.space == CellSpace::kInbox) return FaultKind::kEarlyRelease;
      return r.by_put ? FaultKind::kOverwrittenBeforeSent : FaultKind::kOverwrittenBeforeRead;
    }
    if (cell.written && !cell.written->known_to(*access.clock))
      return overtakes                         ? FaultKind::kCallOvertaken
             : cell.space == CellSpace::kInbox ? FaultKind::kEarlyRelease
                                               : FaultKind::kOverwrittenBeforeRead;
    if (!cell.was_read && !cell.value.is_void && cell.space != CellSpace::kUser) {
      if (overtakes) return FaultKind::kCallOvertaken;
      return cell.space == CellSpace::kInbox ? FaultKind::kEarlyRelease : FaultKind::kDeadWrite;
    }
    return std::nullopt;
  }

  std::unordered_map<Key, Cell> cells_;
};

}  // namespace twohop
