// See gpu_progress.hpp. Waiting: yields while a call is under way, then ever longer sleeps, since no kernel can ring; a
// condition variable while there is nothing to wait for.
#include "collectives/exec/gpu/gpu_progress.hpp"

#include <sched.h>

#include <algorithm>
#include <thread>
#include <utility>

namespace twohop {
namespace {

using Clock = std::chrono::steady_clock;
constexpr unsigned kYields = 200;
constexpr std::chrono::microseconds kShortSleep{20}, kLongSleep{1000};
constexpr unsigned kSleepsBeforeLonger = 500;
/// A graph may be replayed at any time, and says nothing before its kernel runs.
constexpr std::chrono::microseconds kGraphSleep{50};

}  // namespace

Result<std::unique_ptr<GpuProgress>> GpuProgress::start(Shared shared, Hooks hooks) {
  std::unique_ptr<GpuProgress> made(new GpuProgress(std::move(shared), std::move(hooks)));
  auto thread = ServiceThread::start("twohop-gpu", [progress = made.get()](int) { progress->run(); });
  if (!thread) return thread.error();
  made->thread_ = std::move(*thread);
  return Result<std::unique_ptr<GpuProgress>>(std::move(made));
}

GpuProgress::~GpuProgress() {
  ending_ = true;
  wake();
  thread_.reset();
}

void GpuProgress::wake() {
  {
    const std::lock_guard lock(mutex_);
    ++wakes_;
  }
  woken_.notify_one();
}

void GpuProgress::run() {
  sleep_until_woken();  // until the first launch: the communicator's init may not have ended yet
  moved_at_ = Clock::now();
  for (unsigned idle = 0;;) {
    over_ = see_whether_over();
    if (ending_ && (over_ || quiet())) return;  // peers get the credits of the last call
    if (over_) {
      sleep_until_woken();
      continue;
    }
    const bool moved = sweep();
    look_at_clock(moved);
    if (moved) {
      idle = 0;
    } else if (quiet()) {
      sleep_until_woken();
      idle = 0;
    } else {
      pause(idle++);
    }
  }
}

/// Kernels that have asked for copies leave only when none is under way any more.
bool GpuProgress::see_whether_over() {
  const bool over = over_ || hooks_.is_over();
  if (over && shared_.hop) shared_.hop->end_copies();
  return over;
}

bool GpuProgress::sweep() {
  bool moved = false;
  if (shared_.hop) {
    auto progress = shared_.hop->progress();
    if (!progress) {
      over_ = true;
      hooks_.failed(progress.error());
      return true;
    }
    moved = *progress;
  }
  return look_at_report() || moved;
}

bool GpuProgress::look_at_report() {
  const LoopReport& r = *shared_.report;
  if (load_acquire(&r.fault) != 0) {
    over_ = true;
    hooks_.failed(hooks_.describe(r));
    return true;
  }
  const uint64_t finished = load_acquire(&r.finished), started = load_acquire(&r.started);
  const bool moved = started != started_ || finished != finished_;
  started_ = started;
  finished_ = finished;
  return moved;
}

/// Nothing is under way, and nothing can begin unless wake() is called.
bool GpuProgress::quiet() const {
  if (started_ != finished_) return false;
  if (load_acquire(&shared_.report->launch) != shared_.launched->load(std::memory_order_acquire)) return false;
  if (shared_.hop && shared_.hop->has_requests()) return false;
  return !shared_.endpoint || !shared_.endpoint->output_pending();
}

void GpuProgress::look_at_clock(bool moved) {
  if (moved || started_ == finished_) {  // a call that waits for its stream is not late
    moved_at_ = Clock::now();
    reported_ = false;
    return;
  }
  const double still_s = std::chrono::duration<double>(Clock::now() - moved_at_).count();
  reported_ = hooks_.stands_still(still_s, reported_);
}

void GpuProgress::pause(unsigned idle) {
  if (!shared_.hop) {  // nobody waits for this thread
    std::this_thread::sleep_for(kLongSleep);
  } else if (idle < kYields) {
    sched_yield();
  } else {
    std::this_thread::sleep_for(idle < kYields + kSleepsBeforeLonger ? kShortSleep : kLongSleep);
  }
}

EndpointCounters GpuProgress::counters() const {
  const std::lock_guard lock(mutex_);
  return counters_;
}

void GpuProgress::sleep_until_woken() {
  std::unique_lock lock(mutex_);
  if (shared_.endpoint && !over_) counters_ = shared_.endpoint->counters();
  const auto woken = [&] { return ending_ || wakes_ != seen_wakes_; };
  if (!over_ && shared_.graphs->load() > 0)
    woken_.wait_for(lock, kGraphSleep, woken);
  else
    woken_.wait(lock, woken);
  seen_wakes_ = wakes_;
}

}  // namespace twohop
