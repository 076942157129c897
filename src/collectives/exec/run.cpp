// See run.hpp. Waiting: a few polls, then yields, then sleep in poll(2) until a peer rings, the network moves or a
// slice is over.
#include "collectives/exec/run.hpp"

#include <poll.h>
#include <sched.h>

#include <chrono>
#include <utility>

#include "base/log.hpp"

namespace twohop {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int kSleepSliceMs = 100;
constexpr unsigned kSweepsPerLook = 4096;

/// Progresses a set of communicators of one thread until their calls are done.
class Runner {
 public:
  explicit Runner(std::span<Work> work) : work_(work) {}

  Result<> run() {
    size_t left = 0;
    for (Work& w : work_) left += w.next < w.calls.size();
    int idle = 0;
    for (unsigned sweep = 1; left > 0; ++sweep) {
      bool some = false;
      if (sweep % kSweepsPerLook == 0) check_deadlines();  // one rank may stand still while another one moves
      for (Work& w : work_)
        if (w.next < w.calls.size() && advance(w, &some)) --left;
      if (some) {
        idle = 0;
        disarm();
      } else {
        wait(idle++);
      }
    }
    disarm();
    if (error_) return *error_;
    return {};
  }

 private:
  /// True when this communicator has nothing left to do.
  bool advance(Work& w, bool* some) {
    auto progress = step(w);
    if (!progress) {
      if (progress.error().code == twohopTimeout && w.comm->running() && !std::exchange(w.reported, true))
        log_warn("rank {}: where it stood when another rank ran out of time:\n{}", w.comm->rank(),
                 w.comm->hang_table());
      w.comm->fail_unless_told(progress.error());
      if (!error_) error_ = *w.comm->failure();
      w.next = w.calls.size();
      *some = true;
      return true;
    }
    const bool moved = *progress != Communicator::Progress::kNothing;
    w.moved |= moved;
    *some |= moved;
    return *progress == Communicator::Progress::kDone && ++w.next == w.calls.size();
  }
  Result<Communicator::Progress> step(Work& w) {
    if (!w.comm->running())
      if (auto started = w.comm->start(w.calls[w.next]); !started) return started.error();
    return w.comm->progress();
  }

  void wait(int idle) {
    const Communicator& first = *work_.front().comm;
    const int spins = work_.size() > 1 ? 1 : first.spin_polls();
    if (idle < spins) return;
    if (idle < spins + first.yields_before_sleep()) {
      count(&Communicator::count_yield);
      sched_yield();
      return;
    }
    if (armed_) return sleep();
    // One more look at everything after the announcement, so that no signal falls between.
    fds().clear();
    for (Work& w : work_)
      if (w.next < w.calls.size()) w.comm->prepare_sleep(fds());
    armed_ = true;
  }
  std::vector<pollfd>& fds() { return work_.front().comm->poll_set(); }
  void sleep() {
    count(&Communicator::count_sleep);
    ::poll(fds().data(), fds().size(), kSleepSliceMs);
    disarm();
    check_deadlines();
  }
  void disarm() {
    if (!armed_) return;
    armed_ = false;
    for (Work& w : work_) w.comm->end_sleep();
  }
  void count(void (Communicator::*counter)()) {
    for (Work& w : work_)
      if (w.next < w.calls.size()) (w.comm->*counter)();
  }
  void check_deadlines() {
    const auto now = Clock::now();
    for (Work& w : work_) {
      if (w.moved) w.still_since = now;
      w.moved = false;
      if (w.next < w.calls.size() && w.comm->running())
        check_deadline(w, std::chrono::duration<double>(now - w.still_since).count());
    }
  }
  void check_deadline(Work& w, double still_s) {
    w.comm->note_standstill(still_s);
    if (still_s < Communicator::kComparePlacesS) {
      w.compared = false;
    } else if (w.comm->gpu() && !std::exchange(w.compared, true)) {
      if (auto same = w.comm->compare_places(); !same) w.comm->fail(same.error());
    }
    const bool out_of_time = still_s >= w.comm->timeout_s();
    if (!out_of_time && (w.reported || still_s < kHangReportS)) return;
    w.reported = true;
    const Communicator::HangReport report = w.comm->hang_report();
    log_warn("rank {}: no progress for {:.0f} s: {}\n{}", w.comm->rank(), still_s, report.summary, report.table);
    if (!out_of_time) return;
    Error e = make_error(twohopTimeout, "rank {}: no progress for {:.0f} s (TWOHOP_TIMEOUT_S): {}", w.comm->rank(),
                         still_s, report.summary);
    e.scope = Scope::kCommunicator;
    w.comm->fail(e);
  }

  static constexpr double kHangReportS = 30;

  std::span<Work> work_;
  std::optional<Error> error_;
  bool armed_ = false;
};

}  // namespace

Result<> run_all(std::span<Work> work) {
  return Runner(work).run();
}

Result<> run_one(Communicator& comm, const Call& call) {
  Work work{&comm, {&call, 1}};
  return run_all({&work, 1});
}

}  // namespace twohop
