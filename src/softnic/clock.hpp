// What time is it on the emulated network? One clock for all processes of the host.
#pragma once

#include <time.h>

#include <cstdint>

namespace softnic {

constexpr uint64_t kNever = UINT64_MAX;

inline uint64_t now_ns() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(time.tv_nsec);
}

}  // namespace softnic
