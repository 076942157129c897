// A group of host threads that play the warps of one lane of the device loop; held up at random at every wait.
#pragma once

#include <atomic>
#include <barrier>
#include <chrono>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "collectives/exec/loop/lane_loop.hpp"
#include "device/element/dispatch.hpp"

namespace twohop::loop_test {

inline uint32_t random_bits() {
  static std::atomic<uint32_t> threads{1};
  thread_local std::minstd_rand random{threads.fetch_add(7919)};
  return random() >> 4;
}

/// Gives the core away now and then, for a random while.
inline void random_delay() {
  const uint32_t bits = random_bits();
  if (bits % 64 == 0) std::this_thread::sleep_for(std::chrono::microseconds(bits / 64 % 100));
  if (bits % 8 == 1) std::this_thread::yield();
}

struct SharedGroup {
  explicit SharedGroup(unsigned threads) : barrier(threads) {}
  std::barrier<> barrier;
  LoopScratch scratch{};
};

class HostGroup {
 public:
  HostGroup(SharedGroup& shared, unsigned thread, unsigned threads)
      : shared_(shared), thread_(thread), threads_(threads) {}
  unsigned thread() const { return thread_; }
  unsigned threads() const { return threads_; }
  void sync() {
    random_delay();
    shared_.barrier.arrive_and_wait();
  }
  LoopScratch& scratch() { return shared_.scratch; }
  void pause(unsigned turns) {
    random_delay();
    // More threads than cores: who waits for long must leave them to the others.
    if (turns > 32)
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    else if (turns > 4)
      std::this_thread::yield();
  }

 private:
  SharedGroup& shared_;
  unsigned thread_, threads_;
};

/// Runs a call to its end, as a kernel would: every lane by a group of `threads` threads.
inline void run_lanes(const LoopCall& call, twohopDataType_t type, unsigned threads) {
  std::vector<std::unique_ptr<SharedGroup>> groups;
  std::vector<std::thread> warps;
  for (uint32_t lane = 0; lane < call.lane_count; ++lane) {
    SharedGroup& shared = *groups.emplace_back(std::make_unique<SharedGroup>(threads));
    for (unsigned t = 0; t < threads; ++t)
      warps.emplace_back([&shared, &call, type, threads, lane, t] {
        HostGroup group(shared, t, threads);
        element::with_element(type, [&](auto e) { LaneLoop<decltype(e), HostGroup>(group, call, lane).run(); });
      });
  }
  for (auto& w : warps) w.join();
}

}  // namespace twohop::loop_test
