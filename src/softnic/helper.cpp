// Who runs what is due while the application sleeps? One thread per process, which sleeps itself until then.
#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>

#include "softnic/datapath.hpp"
#include "softnic/port.hpp"

namespace softnic {
namespace {

// A thread that polls will most likely run a request itself: the helper comes later then, and spares it the company.
constexpr uint64_t kSlackNs = 500'000;
// So long after its last poll an application counts as polling.
constexpr uint64_t kPollingNs = 200'000;
// While requests come, the helper looks around this often rather than be woken for each.
constexpr uint64_t kTickNs = 1'000'000;
constexpr uint64_t kBusyNs = 5'000'000;

uint64_t helper_time(const LocalQp& qp, uint64_t due) {
  uint64_t polled = local<LocalCq>(qp.send_cq)->last_poll_ns.load(std::memory_order_relaxed);
  if (due == kNever || polled == 0 || now_ns() - polled > kPollingNs) return due;
  return due + kSlackNs;
}

void sleep_on(std::atomic<uint32_t>* word, uint32_t expected, uint64_t until_ns) {
  timespec until{static_cast<time_t>(until_ns / 1'000'000'000), static_cast<long>(until_ns % 1'000'000'000)};
  syscall(SYS_futex, word, FUTEX_WAIT_BITSET, expected, until_ns == kNever ? nullptr : &until, nullptr,
          FUTEX_BITSET_MATCH_ANY);
}

}  // namespace

void Process::helper() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, nullptr);
  prctl(PR_SET_NAME, "softnic");
  prctl(PR_SET_TIMERSLACK, 1);
  SharedProcess& own = state()->processes[slot_];
  own.life.lock();
  {
    std::lock_guard guard(started_mutex_);
    helper_runs_ = true;
    started_.notify_all();
  }
  while (!stop_.load()) {
    uint32_t seen = own.wake.load();
    own.sleep_until.store(kNever);  // from here on, whoever posts wakes us
    serve_kicks();
    uint64_t next = look_around(now_ns());
    own.sleep_until.store(next);
    sleep_on(&own.wake, seen, next);
  }
  own.life.unlock();
}

uint64_t Process::look_around(uint64_t now) {
  uint64_t next = report_port_changes(now);
  std::lock_guard guard(registry_mutex_);
  for (LocalQp* qp : qps_) {
    uint64_t due = helper_time(*qp, qp->next_due_ns.load());
    if (due <= now) {
      std::lock_guard sending(qp->send_mutex);
      progress(*qp, now);
      due = helper_time(*qp, qp->next_due_ns.load());
    }
    if (due != kNever) busy_until_ns_ = now + kBusyNs;
    next = std::min(next, due);
  }
  return now < busy_until_ns_ ? std::min(next, now + kTickNs) : next;
}

// Returns when the next change is.
uint64_t Process::report_port_changes(uint64_t now) {
  std::lock_guard guard(registry_mutex_);
  uint64_t next = kNever;
  for (LocalContext* context : contexts_) {
    const SharedPort& port = *own_port(context->index);
    next = std::min(next, next_port_change(port, now));
    bool up = port_is_up(port, now);
    if (up == context->port_up) continue;
    context->port_up = up;
    // All processes of the host see the change; one counts it.
    if (own_port(context->index)->down_counted.exchange(up ? 0 : 1) == 0 && !up)
      own_counters(context->index)->add(Counter::kLinkDowned, 1);
    report_event(context, up ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR, nullptr);
  }
  return next;
}

// Peers changed the state of our queue pairs, or one of our queues overran.
void Process::serve_kicks() {
  if (state()->processes[slot_].kick.exchange(0) == 0) return;
  std::lock_guard guard(registry_mutex_);
  for (LocalQp* qp : qps_) {
    if (qp->shared->state.load() == IBV_QPS_ERR) {
      std::lock_guard sending(qp->send_mutex);
      progress(*qp, now_ns());
    }
    uint32_t events = qp->shared->events.exchange(0);
    for (unsigned type = 0; events >> type; type++)
      if (events >> type & 1)
        report_event(local<LocalContext>(qp->context), static_cast<ibv_event_type>(type), static_cast<ibv_qp*>(qp));
  }
  for (LocalCq* cq : cqs_)
    if (cq->shared->overrun.load() && !std::exchange(cq->shared->overrun_reported, 1))
      report_event(local<LocalContext>(cq->context), IBV_EVENT_CQ_ERR, static_cast<ibv_cq*>(cq));
}

void Process::wake_helper_for(const LocalQp& qp) {
  uint64_t due = qp.next_due_ns.load();
  if (due != kNever && helper_time(qp, due) < state()->processes[slot_].sleep_until.load()) wake(slot_);
}

void Process::wake(uint32_t slot) {
  std::atomic<uint32_t>* word = &state()->processes[slot].wake;
  word->fetch_add(1);
  syscall(SYS_futex, word, FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

void Process::kick(uint32_t slot) {
  state()->processes[slot].kick.store(1);
  wake(slot);
}

bool Process::alive(uint32_t slot) {
  SharedProcess& process = state()->processes[slot];
  return slot == slot_ || (process.in_use.load() && !process.life.holder_is_gone());
}

void Process::notify_channel(uint32_t slot, int fd, uint64_t channel_id, uint32_t cq_handle) {
  std::unique_lock guard(channels_mutex_, std::defer_lock);
  if (slot != slot_) {
    guard.lock();
    fd = channel_fd(slot, fd, channel_id);
  }
  // A full pipe holds thousands of events that nobody read: one more would tell nothing new.
  [[maybe_unused]] ssize_t written = fd < 0 ? -1 : write(fd, &cq_handle, sizeof cq_handle);
}

// Opened for reading too, so that writing to a pipe whose owner has ended is no SIGPIPE.
int Process::channel_fd(uint32_t slot, int fd, uint64_t channel_id) {
  for (size_t i = 0; i < open_channels_; i++)
    if (channels_[i].id == channel_id) return channels_[i].fd;
  if (open_channels_ == kMaxOpenChannels) close_channels();
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/fd/%d", static_cast<int>(state()->processes[slot].pid), fd);
  int opened = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
  if (opened >= 0) channels_[open_channels_++] = {channel_id, opened};
  return opened;
}

void Process::close_channels() {
  while (open_channels_ > 0) close(channels_[--open_channels_].fd);
}

}  // namespace softnic
