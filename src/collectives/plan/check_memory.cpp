// See check_memory.hpp.
#include "collectives/plan/check_memory.hpp"

namespace twohop {

std::optional<FaultKind> CheckMemory::read(size_t at, const ChunkName& chunk, const Access& access) {
  Cell& cell = cells_[at];
  if (cell.value.chunk != chunk && cell.lost == chunk) return FaultKind::kOverwrittenBeforeRead;
  if (cell.value.chunk != chunk || !cell.written.known_to(access.clock)) return FaultKind::kReadTooEarly;
  cell.was_read = true;
  add_read(cell, access);
  return std::nullopt;
}

std::optional<FaultKind> CheckMemory::write(size_t at, CellSpace space, const Value& value, const Access& access) {
  Cell& cell = cells_[at];
  if (!cell.fresh()) {
    const auto fault = overwrite_fault(cell, value, access);
    if (fault && *fault != FaultKind::kDeadWrite) return fault;
    if (fault) cell.lost = cell.value.chunk, dead_write_ = true;
  }
  drop_reads(cell);
  cell.value = value;
  cell.written = access.event;
  cell.was_read = false;
  cell.space = space;
  return std::nullopt;
}

std::optional<FaultKind> CheckMemory::overwrite_fault(const Cell& cell, const Value& value,
                                                      const Access& access) const {
  const bool overtakes = cell.value.chunk.call != value.chunk.call, inbox = cell.space == CellSpace::kInbox;
  const auto name = [&](FaultKind otherwise) {
    return overtakes ? FaultKind::kCallOvertaken : inbox ? FaultKind::kEarlyRelease : otherwise;
  };
  for (int32_t i = cell.reads; i >= 0; i = reads_[i].next)
    if (!reads_[i].event.known_to(access.clock))
      return name(reads_[i].by_put ? FaultKind::kOverwrittenBeforeSent : FaultKind::kOverwrittenBeforeRead);
  if (!cell.written.known_to(access.clock)) return name(FaultKind::kOverwrittenBeforeRead);
  if (!cell.was_read && !cell.value.is_void && cell.space != CellSpace::kUser) return name(FaultKind::kDeadWrite);
  return std::nullopt;
}

bool CheckMemory::all_free(size_t from, size_t count, ClockView clock) const {
  for (size_t at = from; at < from + count; ++at) {
    const Cell& cell = cells_[at];
    if (cell.fresh()) continue;
    if (!cell.written.known_to(clock)) return false;
    for (int32_t i = cell.reads; i >= 0; i = reads_[i].next)
      if (!reads_[i].event.known_to(clock)) return false;
  }
  return true;
}

bool CheckMemory::has_unread() const {
  for (const Cell& cell : cells_)
    if (cell.space != CellSpace::kUser && !cell.was_read && !cell.value.is_void) return true;
  return false;
}

void CheckMemory::add_read(Cell& cell, const Access& access) {
  int32_t i = free_;
  if (i < 0) {
    i = static_cast<int32_t>(reads_.size());
    reads_.emplace_back();
  } else {
    free_ = reads_[i].next;
  }
  reads_[i] = {access.event, access.by_put, cell.reads};
  cell.reads = i;
}

void CheckMemory::drop_reads(Cell& cell) {
  while (cell.reads >= 0) {
    const int32_t next = reads_[cell.reads].next;
    reads_[cell.reads].next = free_;
    free_ = cell.reads;
    cell.reads = next;
  }
}

}  // namespace twohop
