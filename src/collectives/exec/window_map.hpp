// WindowMap: where everything lies in the segment that a rank shares with its node.
//
//   control page | counters [channel][lane] | windows [channel][half] | inboxes [inbox][half]
//
// A half serves the calls of one parity. Sizes are the same for all ranks of a communicator, but for the number of
// inboxes.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "device/host_device.hpp"
#include "device/reduce_types.hpp"

namespace twohop {

constexpr size_t kCacheLine = 64;

/// A counter on a cache line of its own, written by one rank.
struct alignas(kCacheLine) SharedWord {
  std::atomic<uint64_t> value;
};
static_assert(sizeof(SharedWord) == kCacheLine && std::atomic<uint64_t>::is_always_lock_free);

/// What a rank says about one call before its first signal.
struct alignas(kCacheLine) CallNotice {
  static constexpr size_t kInputBytes = 40;
  std::atomic<uint64_t> call;  // published last
  uint64_t signature;
  Scalar scale;                  // of its contribution
  std::byte input[kInputBytes];  // of a small call: its contribution, if it fits; else that lies in the window

  /// Of a call on GPUs, in the place of the input: where this rank's contribution lies (LoopCall::direct).
  TWOHOP_HD uint64_t* direct() { return reinterpret_cast<uint64_t*>(input); }
};
static_assert(sizeof(CallNotice) == kCacheLine, "who compares the call has its data too");

struct ControlPage {
  SharedWord finished;    // number of the last call that this rank has finished; calls count from 1
  SharedWord sleeping;    // 1 while the rank sleeps and wants to be woken by a signal
  SharedWord left;        // 1 once the rank has destroyed its communicator
  SharedWord meeting;     // what the rank says at its latest meeting (node_meeting.hpp)
  SharedWord read;        // on GPUs: number of the last call in which this rank read the user's memory of others
  CallNotice notices[2];  // by the call's parity
};

struct WindowMap {
  size_t channels = 1;
  size_t lanes = 1;
  size_t window_bytes = 0;  // of one channel and half
  size_t inbox_bytes = 0;   // of one inbox and half

  static constexpr size_t kPage = 4096;
  static constexpr size_t pages(size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

  size_t counter(size_t channel, size_t lane) const {
    return sizeof(ControlPage) + (channel * lanes + lane) * sizeof(SharedWord);
  }
  size_t window(size_t channel) const { return pages(counter(channels, 0)) + channel * 2 * window_bytes; }
  size_t inbox(size_t number) const { return window(channels) + number * 2 * inbox_bytes; }
  size_t total(size_t inboxes) const { return pages(inbox(inboxes)); }
};

}  // namespace twohop
