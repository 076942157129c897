// GpuProgress: the thread beside the kernels of one communicator. It carries their puts and credits to the network and
// back, and their copies to the copy engine, notices what they report, and when they stand still. It sleeps while no
// call is under way.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>

#include "base/result.hpp"
#include "bootstrap/service_thread.hpp"
#include "collectives/exec/loop/network_hop.hpp"

namespace twohop {

class GpuProgress {
 public:
  struct Shared {
    const LoopReport* report = nullptr;
    const std::atomic<int>* graphs = nullptr;         // captured calls that graphs hold
    const std::atomic<uint64_t>* launched = nullptr;  // LoopCall::launch of the latest one
    Endpoint* endpoint = nullptr;                     // null on a single node
    std::unique_ptr<NetworkHop> hop;                  // null where nothing is asked of the CPU
  };
  /// What the communicator does about it; called from the thread.
  struct Hooks {
    /// The error of the endpoint or the copy engine: nothing moves any more.
    std::function<void(const Error&)> failed;
    /// What the kernels say went wrong.
    std::function<Error(const LoopReport&)> describe;
    /// A call has been under way for so long without any progress, and that has been said already or not. Returns
    /// whether it has been said now.
    std::function<bool(double seconds, bool said)> stands_still;
    /// The calls have failed, for whatever reason: nothing is to be done any more.
    std::function<bool()> is_over;
  };
  static Result<std::unique_ptr<GpuProgress>> start(Shared shared, Hooks hooks);
  ~GpuProgress();  // ends the thread, once what the kernels asked for is done. Pre: no kernel runs

  /// A call was launched.
  void wake();
  /// What the network of these calls has counted, as of the last time that nothing was under way. Any thread.
  EndpointCounters counters() const;

 private:
  GpuProgress(Shared shared, Hooks hooks) : shared_(std::move(shared)), hooks_(std::move(hooks)) {}
  void run();
  bool see_whether_over();
  bool sweep();
  bool look_at_report();
  bool quiet() const;
  void look_at_clock(bool moved);
  void pause(unsigned idle);
  void sleep_until_woken();

  Shared shared_;
  Hooks hooks_;
  std::atomic<bool> ending_{false};
  mutable std::mutex mutex_;
  std::condition_variable woken_;
  EndpointCounters counters_;
  uint64_t wakes_ = 0, seen_wakes_ = 0;

  // The thread's own.
  uint64_t started_ = 0, finished_ = 0;
  bool over_ = false, reported_ = false;
  std::chrono::steady_clock::time_point moved_at_{};
  std::unique_ptr<ServiceThread> thread_;  // last: it uses the rest
};

}  // namespace twohop
