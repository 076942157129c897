// Ranks as threads of one test process, on loopback.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "bootstrap/control.hpp"
#include "bootstrap/unique_id.hpp"

namespace twohop {

inline Deadline in(std::chrono::milliseconds d) {
  return std::chrono::steady_clock::now() + d;
}

inline Options loopback_options(int64_t init_timeout_s = 30) {
  Options o;
  o.socket_ifname = "lo";
  o.init_timeout_s = init_timeout_s;
  return o;
}

inline Bytes bytes_of(std::string_view s) {
  const auto* p = reinterpret_cast<const std::byte*>(s.data());
  return Bytes(p, p + s.size());
}

/// Runs body(rank) in a thread of its own for each rank, and waits for all.
inline void run_ranks(int nranks, const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  for (int r = 0; r < nranks; r++) threads.emplace_back(body, r);
  for (auto& t : threads) t.join();
}

using Controls = std::vector<std::unique_ptr<Control>>;

inline Controls join_all(const twohopUniqueId& id, int nranks) {
  Controls controls(static_cast<size_t>(nranks));
  run_ranks(nranks, [&](int r) {
    auto c = Control::join(id, r, nranks, in(std::chrono::seconds(30)));
    ASSERT_TRUE(c) << "rank " << r << ": " << c.error().message;
    controls[static_cast<size_t>(r)] = std::move(*c);
  });
  return controls;
}

/// Collects what failure handlers were told.
class Failures {
 public:
  Control::FailureHandler handler() {
    return [this](const Error& e) {
      const std::lock_guard lock(mutex_);
      seen_.push_back(e);
      changed_.notify_all();
    };
  }
  bool wait_for(size_t count, std::chrono::milliseconds limit) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, limit, [&] { return seen_.size() >= count; });
  }
  std::vector<Error> seen() {
    const std::lock_guard lock(mutex_);
    return seen_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Error> seen_;
};

}  // namespace twohop
