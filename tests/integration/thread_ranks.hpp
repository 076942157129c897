// Ranks as threads of this process, each with a communicator of its own: how the collectives are tested under a
// debugger or a sanitizer.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "twohop/twohop.h"

namespace twohop::test {

struct Ranks {
  int nranks = 1;
  int ranks_per_node = 0;  // 0: all on one node
  const char* algo = "auto";
  double timeout_s = 60;  // a bug ends as a failed test, not as a hang
};

inline std::string why(twohopComm_t comm, twohopResult_t result) {
  return std::string(twohopGetErrorString(result)) + ": " + twohopGetLastError(comm);
}

#define EXPECT_OK(call, comm)                                                  \
  do {                                                                         \
    twohopResult_t expect_ok_result = (call);                                  \
    EXPECT_EQ(expect_ok_result, twohopSuccess) << why(comm, expect_ok_result); \
  } while (0)

inline twohopConfig_t config_of(const Ranks& ranks) {
  twohopConfig_t config = TWOHOP_CONFIG_INITIALIZER;
  config.ranks_per_node = ranks.ranks_per_node;
  config.algo = ranks.algo;
  config.timeout_s = ranks.timeout_s;
  return config;
}

/// Runs body(rank, comm) on one thread per rank, with a communicator over all of them; destroys it afterwards. No body
/// begins before all ranks have joined: an error of one would end the others' init, which is right but not the point.
inline void run_ranks(const Ranks& ranks, const std::function<void(int, twohopComm_t)>& body) {
  twohopUniqueId id;
  ASSERT_EQ(twohopGetUniqueId(&id), twohopSuccess) << twohopGetLastError(nullptr);
  std::atomic<int> joined{0};
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks.nranks; ++rank)
    threads.emplace_back([&, rank] {
      twohopConfig_t config = config_of(ranks);
      twohopComm_t comm = nullptr;
      twohopResult_t made = twohopCommInitRankConfig(&comm, ranks.nranks, id, rank, &config);
      ++joined;  // also when it failed: the others must not wait for ever
      ASSERT_EQ(made, twohopSuccess) << why(nullptr, made);
      while (joined < ranks.nranks) std::this_thread::yield();
      body(rank, comm);
      EXPECT_OK(twohopCommDestroy(comm), nullptr);
    });
  for (auto& thread : threads) thread.join();
}

/// Memory for `bytes`, starting `offset` bytes after a page boundary.
class Buffer {
 public:
  explicit Buffer(size_t bytes, size_t offset = 0) : memory_(bytes + offset + 4096), offset_(offset) {}
  unsigned char* get() {
    auto base = reinterpret_cast<uintptr_t>(memory_.data());
    return memory_.data() + (4096 - base % 4096) % 4096 + offset_;
  }

 private:
  std::vector<unsigned char> memory_;
  size_t offset_;
};

}  // namespace twohop::test
