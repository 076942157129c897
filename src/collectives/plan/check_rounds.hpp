// Why a proof for some rounds covers any number: rounds repeat.
//
// Targets and slot numbers are linear in the round, so a step depends only on steps of its own and of earlier rounds,
// at fixed distances, at most `lookback_rounds` away (every round uses at least one slot of each ring). A round's
// digest covers what every step knows (its clock) and finds (the memory cells it accesses), all relative to the round.
// When lookback + 1 consecutive rounds have equal digests, each step of the next round sees what its predecessor saw,
// does the same, and so on for ever: no later round can bring a fault that these did not. A deadlock cannot appear
// later either, since a cycle of waits would lie within one round, and so be in these rounds too.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "collectives/plan/check_memory.hpp"

namespace twohop {

inline int lookback_rounds(const Depths& d) {
  return std::max(d.blocks, d.put_slots) + 1;
}
/// The last rounds repeat, often enough for the argument above.
bool rounds_repeat(std::span<const uint64_t> digests, const Depths& depths);

/// A digest in the making. Numbers are mixed in, order matters.
class Digest {
 public:
  void add(uint64_t x) {
    value_ = (value_ ^ x) * 0x9e3779b97f4a7c15;
    value_ ^= value_ >> 32;
  }
  uint64_t value() const { return value_; }

 private:
  uint64_t value_ = 0x243f6a8885a308d3;
};

/// Digests what a step sees, relative to its round. `per_round`: events of each thread of the node in one round.
class RoundView {
 public:
  RoundView(std::span<const uint32_t> per_round, int64_t round) : per_round_(per_round), round_(round) {}
  void clock(Digest& digest, ClockView clock) const {
    for (uint32_t t = 0; t < clock.size(); ++t) digest.add(relative({t, clock[t]}));
  }
  /// What a read finds. Other reads of the same value are left out: whether they came first is an accident.
  void value(Digest& digest, const CheckMemory::Cell& cell) const;
  /// What a write finds: the old value and its reads, all of which are certain to have come first.
  void value_and_reads(Digest& digest, const CheckMemory& memory, const CheckMemory::Cell& cell) const;

 private:
  /// Knowing nothing is the same in every round.
  uint64_t relative(Event e) const {
    return e.count == 0 ? UINT64_MAX : uint64_t{e.count} - round_ * per_round_[e.thread];
  }

  std::span<const uint32_t> per_round_;
  int64_t round_;
};

}  // namespace twohop
