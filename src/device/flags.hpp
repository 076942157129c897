// The flags by which ranks of a node, and the GPU and the CPU of a rank, tell each other how far they are: 64-bit words
// that one writer counts up and that anybody polls, at system scope, from host and device code alike.
//
// A word holds a tag: call number << 32 | count within the call. It never goes back, so a reader of call n that sees a
// smaller call number knows that nothing has been said about call n yet, and one that sees a larger one that all has.
//
// libcu++'s atomics where its headers are found (they compile with an ordinary C++ compiler too), else the standard's.
#pragma once

#include <cstdint>

#include "device/host_device.hpp"
#if __has_include(<cuda/atomic>)
#include <cuda/atomic>
#else
#include <atomic>
#endif

namespace twohop {

#if __has_include(<cuda/atomic>)
using SystemWord = cuda::atomic_ref<uint64_t, cuda::thread_scope_system>;
namespace order = ::cuda::std;
#else
using SystemWord = std::atomic_ref<uint64_t>;
namespace order = ::std;
#endif

TWOHOP_HD inline uint64_t load_acquire(const uint64_t* word) {
  return SystemWord(*const_cast<uint64_t*>(word)).load(order::memory_order_acquire);
}
TWOHOP_HD inline uint64_t load_relaxed(const uint64_t* word) {
  return SystemWord(*const_cast<uint64_t*>(word)).load(order::memory_order_relaxed);
}
/// Whoever sees `value` by load_acquire sees all that this thread, and those it has synchronised with, wrote before.
TWOHOP_HD inline void store_release(uint64_t* word, uint64_t value) {
  SystemWord(*word).store(value, order::memory_order_release);
}
TWOHOP_HD inline void store_relaxed(uint64_t* word, uint64_t value) {
  SystemWord(*word).store(value, order::memory_order_relaxed);
}
/// Returns the value before; acquires and releases.
TWOHOP_HD inline uint64_t fetch_add(uint64_t* word, uint64_t value) {
  return SystemWord(*word).fetch_add(value, order::memory_order_acq_rel);
}

TWOHOP_HD constexpr uint64_t tag_of(uint64_t call, uint64_t count) {
  return call << 32 | count;
}
/// Has a counter that shows `seen` reached `wanted`? Of tags and of plain counts, also past a wrap.
TWOHOP_HD constexpr bool reached(uint64_t seen, uint64_t wanted) {
  return static_cast<int64_t>(seen - wanted) >= 0;
}

}  // namespace twohop
