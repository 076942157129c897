// Ranks as threads, each with a fake GPU of its own and buffers on it.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "fake_gpu.hpp"
#include "twohop/twohop.h"

namespace twohop::gpu_test {

struct Job {
  int nranks = 2;
  int ranks_per_node = 0;
  const char* algo = "auto";
  double timeout_s = 60;
  int nchannels = 1;
  bool one_gpu = false;  // for all ranks
};

inline std::string last_error(twohopComm_t comm = nullptr) {
  return twohopGetLastError(comm);
}

inline twohopResult_t async_error(twohopComm_t comm) {
  twohopResult_t error = twohopSuccess;
  EXPECT_EQ(twohopCommGetAsyncError(comm, &error), twohopSuccess);
  return error;
}
/// The error that the communicator comes to fail with.
inline twohopResult_t awaited_error(twohopComm_t comm) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (async_error(comm) == twohopSuccess && std::chrono::steady_clock::now() < until) std::this_thread::yield();
  return async_error(comm);
}

inline void run_ranks(const Job& job, const std::function<void(int, twohopComm_t)>& body) {
  twohopUniqueId id{};
  ASSERT_EQ(twohopGetUniqueId(&id), twohopSuccess) << last_error();
  std::atomic<int> joined{0};
  std::vector<std::thread> threads;
  for (int rank = 0; rank < job.nranks; ++rank)
    threads.emplace_back([&, rank] {
      FakeGpus::set_device(job.one_gpu ? 0 : rank);
      twohopConfig_t config = TWOHOP_CONFIG_INITIALIZER;
      config.ranks_per_node = job.ranks_per_node;
      config.algo = job.algo;
      config.timeout_s = job.timeout_s;
      config.nchannels = job.nchannels;
      twohopComm_t comm = nullptr;
      const twohopResult_t made = twohopCommInitRankConfig(&comm, job.nranks, id, rank, &config);
      ++joined;
      ASSERT_EQ(made, twohopSuccess) << last_error();
      while (joined < job.nranks) std::this_thread::yield();
      body(rank, comm);
      EXPECT_EQ(twohopCommDestroy(comm), twohopSuccess) << last_error();
    });
  for (auto& t : threads) t.join();
}

/// Floats on a fake GPU (or what else the kind says); freed at the end.
class Floats {
 public:
  Floats(FakeGpus& gpus, size_t count, int device, MemoryKind kind = MemoryKind::kDevice)
      : gpus_(gpus),
        data_(reinterpret_cast<float*>(gpus.allocate(count * sizeof(float), kind, device))),
        count_(count) {}
  ~Floats() { gpus_.free(reinterpret_cast<std::byte*>(data_)); }
  Floats(const Floats&) = delete;
  Floats& operator=(const Floats&) = delete;
  float* get() const { return data_; }
  size_t count() const { return count_; }
  void fill(int rank) {
    for (size_t i = 0; i < count_; ++i) data_[i] = static_cast<float>(rank + 1) + static_cast<float>(i % 13);
  }
  /// The sum over all ranks of what fill() gave, plus `base` per rank.
  void expect_sum(int nranks, float base = 0) const {
    for (size_t i = 0; i < count_; ++i) {
      const float want = static_cast<float>(nranks * (nranks + 1)) / 2 +
                         static_cast<float>(nranks) * (static_cast<float>(i % 13) + base);
      ASSERT_EQ(data_[i], want) << "element " << i << " of " << count_;
    }
  }

 private:
  FakeGpus& gpus_;
  float* data_;
  size_t count_;
};

/// As a cudaStream_t is passed.
inline twohopStream_t as_stream(FakeStream& stream) {
  return reinterpret_cast<twohopStream_t>(&stream);
}

}  // namespace twohop::gpu_test
