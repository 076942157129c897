// The bounded queue by which a running kernel asks the progress thread for puts, credits and copies: many producers,
// one consumer, entries in memory that both sides reach.
//
// A producer takes a ticket, waits until the entry of that ticket is free, fills it in and publishes it by its sequence
// number. The consumer ends entries in the order of tickets and counts them in `taken`. It waits for no kernel before
// it ends one: credits were awaited by the producer, and copies that were started end by themselves. So a full queue
// always drains, and a producer that sees its ticket in `taken` knows that its copy is complete.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/flags.hpp"

namespace twohop {

enum class PutRequest : uint32_t { kPut, kRelease, kCopy };

struct alignas(128) PutEntry {
  uint64_t sequence;  // ticket + 1, published last
  PutRequest request;
  uint32_t link;
  uint64_t call, signature;
  uint32_t pieces, unused;
  struct Piece {
    const std::byte* source;
    uint64_t inbox_offset, bytes;
    std::byte* copy_to;  // by a copy engine, and sent from there; null: sent from where it lies
  } piece[2];
};
static_assert(sizeof(PutEntry) == 128);

/// Zero-filled memory makes an empty queue.
struct PutQueue {
  PutEntry* entries = nullptr;      // `capacity` of them, reached by both sides
  uint64_t* tickets = nullptr;      // the producers' own
  const uint64_t* taken = nullptr;  // written by the consumer
  uint64_t capacity = 0;

  /// `fill` writes everything but the sequence number. `wait(condition)` returns false when the call is to end. Returns
  /// the entry's sequence number, which `taken` reaches when it is done with; 0 when the call is to end.
  template <class Wait, class Fill>
  TWOHOP_HD uint64_t push(Wait&& wait, Fill&& fill) const {
    const uint64_t ticket = fetch_add(tickets, 1);
    if (!wait([&] { return reached(load_acquire(taken) + capacity, ticket + 1); })) return 0;
    PutEntry& entry = entries[ticket % capacity];
    fill(entry);
    store_release(&entry.sequence, ticket + 1);
    return ticket + 1;
  }
};

/// The consumer's end. One thread.
class PutQueueReader {
 public:
  PutQueueReader() = default;
  PutQueueReader(PutEntry* entries, uint64_t capacity, uint64_t* taken)
      : entries_(entries), capacity_(capacity), taken_(taken) {}

  /// The next entry, or null when there is none yet. It is the reader's until pop().
  const PutEntry* front() const { return behind_front(0); }
  /// The one so many places behind it.
  const PutEntry* behind_front(uint64_t places) const {
    const uint64_t ticket = next_ + places;
    const PutEntry& entry = entries_[ticket % capacity_];
    return load_acquire(&entry.sequence) == ticket + 1 ? &entry : nullptr;
  }
  void pop() { store_release(taken_, ++next_); }

 private:
  PutEntry* entries_ = nullptr;
  uint64_t capacity_ = 0, next_ = 0;
  uint64_t* taken_ = nullptr;
};

}  // namespace twohop
