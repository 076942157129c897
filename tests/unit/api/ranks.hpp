// Ranks of one process, for the tests of the C API: as threads, or all in one thread by a group.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <barrier>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "twohop/twohop.h"

namespace twohop {

inline twohopUniqueId unique_id() {
  twohopUniqueId id{};
  EXPECT_EQ(twohopGetUniqueId(&id), twohopSuccess) << twohopGetLastError(nullptr);
  return id;
}

/// The last call of this thread was refused with `code` and a text that contains `text`.
inline void expect_refused(twohopResult_t result, twohopResult_t code, const std::string& text) {
  EXPECT_EQ(result, code) << twohopGetLastError(nullptr);
  EXPECT_THAT(std::string(twohopGetLastError(nullptr)), testing::HasSubstr(text));
}

/// Runs body(rank, comm) on a thread per rank, and frees the communicators. No body begins before all ranks have
/// joined: an error of one would end the init of the others, which is right but not what the tests are after.
inline void run_ranks(int nranks, const std::function<void(int, twohopComm_t)>& body,
                      twohopConfig_t config = TWOHOP_CONFIG_INITIALIZER) {
  const twohopUniqueId id = unique_id();
  std::barrier joined(nranks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < nranks; ++rank)
    threads.emplace_back([&, rank] {
      twohopComm_t comm = nullptr;
      const twohopResult_t init = twohopCommInitRankConfig(&comm, nranks, id, rank, &config);
      joined.arrive_and_wait();
      ASSERT_EQ(init, twohopSuccess) << twohopGetLastError(nullptr);
      body(rank, comm);
      EXPECT_EQ(twohopCommDestroy(comm), twohopSuccess) << twohopGetLastError(nullptr);
    });
  for (std::thread& t : threads) t.join();
}

/// All ranks of a communicator, held by the thread that makes it.
class Ranks {
 public:
  explicit Ranks(int nranks, twohopConfig_t config = TWOHOP_CONFIG_INITIALIZER) : comms_(nranks) {
    const twohopUniqueId id = unique_id();
    EXPECT_EQ(twohopGroupStart(), twohopSuccess);
    for (int rank = 0; rank < nranks; ++rank)
      EXPECT_EQ(twohopCommInitRankConfig(&comms_[rank], nranks, id, rank, &config), twohopSuccess);
    EXPECT_EQ(twohopGroupEnd(), twohopSuccess) << twohopGetLastError(nullptr);
  }
  ~Ranks() {
    for (twohopComm_t comm : comms_) EXPECT_EQ(twohopCommDestroy(comm), twohopSuccess) << twohopGetLastError(nullptr);
  }
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  twohopComm_t& operator[](int rank) { return comms_[rank]; }
  int size() const { return static_cast<int>(comms_.size()); }
  auto begin() { return comms_.begin(); }
  auto end() { return comms_.end(); }

 private:
  std::vector<twohopComm_t> comms_;
};

inline twohopConfig_t ranks_per_node(int n) {
  twohopConfig_t config = TWOHOP_CONFIG_INITIALIZER;
  config.ranks_per_node = n;
  return config;
}

/// An enumerator that is none, as a C program may pass it.
template <class Enum>
Enum bad_enum(int value) {
  Enum bad;
  std::memcpy(&bad, &value, sizeof bad);
  return bad;
}

}  // namespace twohop
