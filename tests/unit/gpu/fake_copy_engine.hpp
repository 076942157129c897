// A copy engine played by a host thread, held up at random; the test may hold it up longer, and break it.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>

#include "collectives/exec/loop/copy_engine.hpp"
#include "host_group.hpp"

namespace twohop::loop_test {

/// Of all engines of a test.
struct CopyEngineBehaviour {
  std::atomic<bool> held{false};      // no copy ends
  std::atomic<uint64_t> fails_at{0};  // so many copies are made; 0: all
  std::atomic<uint64_t> started{0}, copied{0};
};

class FakeCopyEngine : public CopyEngine {
 public:
  explicit FakeCopyEngine(CopyEngineBehaviour& behaviour) : all_(behaviour), thread_([this] { run(); }) {}
  ~FakeCopyEngine() override {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  Result<> copy(std::byte* to, const std::byte* from, size_t bytes) override {
    ++all_.started;
    {
      const std::lock_guard lock(mutex_);
      queue_.push_back({to, from, bytes});
    }
    changed_.notify_all();
    return {};
  }
  Result<uint64_t> completed() override {
    if (failed_) return make_error(twohopUnhandledCudaError, "the fake copy engine is broken");
    return completed_.load(std::memory_order_acquire);
  }
  void wait() override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return queue_.empty(); });
  }

 private:
  struct Copy {
    std::byte* to;
    const std::byte* from;
    size_t bytes;
  };
  void run() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return ending_ || !queue_.empty(); });
      if (queue_.empty()) return;
      const Copy copy = queue_.front();
      lock.unlock();
      make(copy);
      lock.lock();
      queue_.pop_front();
      changed_.notify_all();
    }
  }
  void make(const Copy& copy) {
    random_delay();
    while (all_.held) std::this_thread::sleep_for(std::chrono::microseconds(200));
    const uint64_t limit = all_.fails_at;
    if (failed_ || (limit != 0 && all_.copied >= limit)) {
      failed_ = true;
      return;
    }
    std::memcpy(copy.to, copy.from, copy.bytes);
    ++all_.copied;
    completed_.fetch_add(1, std::memory_order_release);
  }

  CopyEngineBehaviour& all_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Copy> queue_;
  std::atomic<uint64_t> completed_{0};
  std::atomic<bool> failed_{false};
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace twohop::loop_test
