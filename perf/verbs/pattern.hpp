// Where do a row's messages lie in memory, what is in them, and is what arrived right? Both ends compute the same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "row.hpp"

namespace twohop::verbs_perf {

/// An end's memory: for every queue pair (those of the first rail first) source slots, then for every queue pair target
/// slots. Message i of a queue pair uses source slot i mod slots, and the target slot of the same number, but of a
/// SEND, which goes where the receive points. Behind every slot lie guard bytes.
struct Layout {
  Layout(const RowSpec& row, size_t queue_pairs);

  size_t bytes() const { return queue_pairs * (source_slots + target_slots) * stride; }
  size_t source(size_t qp, size_t slot) const { return (qp * source_slots + slot) * stride; }
  size_t target(size_t qp, size_t slot) const {
    return (queue_pairs * source_slots + qp * target_slots + slot) * stride;
  }

  size_t queue_pairs, size, stride, source_slots, target_slots;
};

/// What was checked.
struct Verdict {
  uint64_t bytes = 0, wrong = 0;
};

/// Fills an end's memory before its row: its source slots (end: 0 client, 1 server), empty targets, guards.
void prepare(std::span<std::byte> memory, const Layout& layout, const RowSpec& row, int end);

/// What one queue pair has brought to this end.
struct Arrivals {
  uint64_t messages = 0;
  std::vector<uint64_t> landed;  // SEND: which message came into which target slot last, counted from 1; 0: none
};
/// Compares all target slots and guards with what `writer`, the end whose data they hold, has sent. For atomics see
/// below.
Verdict verify(std::span<const std::byte> memory, const Layout& layout, const RowSpec& row, int writer,
               std::span<const Arrivals> arrivals);

/// Atomics count a word per queue pair up: what this end's words must be after `adds` of each, and what the values that
/// its own `fetched` atomics brought back must be.
Verdict verify_words(std::span<const std::byte> memory, const Layout& layout, const RowSpec& row, int end,
                     std::span<const uint64_t> adds);
Verdict verify_fetched(std::span<const std::byte> memory, const Layout& layout, const RowSpec& row, int other_end,
                       std::span<const uint64_t> fetched);

}  // namespace twohop::verbs_perf
