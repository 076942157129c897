// See watcher.hpp.
#include "bootstrap/watcher.hpp"

#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/log.hpp"

namespace twohop {

Result<std::shared_ptr<Watcher>> Watcher::instance() {
  static std::mutex mutex;
  static std::shared_ptr<Watcher> watcher;
  const std::lock_guard lock(mutex);
  if (watcher) return watcher;
  std::shared_ptr<Watcher> fresh(new Watcher);
  fresh->wake_ = Fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!fresh->wake_) return system_error(errno, "cannot create an event descriptor for the watcher thread");
  auto thread = ServiceThread::start("twohop-watch", [w = fresh.get()](int stop_fd) { w->run(stop_fd); });
  if (!thread) return thread.error();
  fresh->thread_ = std::move(*thread);
  watcher = fresh;
  return watcher;
}

void Watcher::add(std::shared_ptr<Watched> watched) {
  {
    const std::lock_guard lock(mutex_);
    watched_.push_back(std::move(watched));
  }
  wake();
}

void Watcher::wake() {
  signal_event(wake_.get());
}

/// Lets go of the finished ones.
std::vector<std::shared_ptr<Watched>> Watcher::current() {
  const std::lock_guard lock(mutex_);
  std::erase_if(watched_, [](const auto& w) { return w->finished(); });
  return watched_;
}

void Watcher::run(int stop_fd) {
  for (;;) {
    const auto all = current();
    std::vector<pollfd> fds{{stop_fd, POLLIN, 0}, {wake_.get(), POLLIN, 0}};
    std::vector<size_t> begins;
    int patience_ms = -1;
    for (const auto& watched : all) {
      begins.push_back(fds.size());
      watched->append_to(fds);
      // As unsigned numbers, where -1 is the longest.
      patience_ms =
          static_cast<int>(std::min(static_cast<unsigned>(patience_ms), static_cast<unsigned>(watched->patience_ms())));
    }
    begins.push_back(fds.size());
    if (poll(fds.data(), fds.size(), patience_ms) < 0) {
      if (errno == EINTR) continue;
      log_warn("the watcher thread ends, lost ranks will only be noticed by time-outs: poll: {}", std::strerror(errno));
      return;
    }
    if (fds[0].revents != 0) return;
    uint64_t count;
    if (fds[1].revents != 0 && read(wake_.get(), &count, sizeof count) < 0 && errno != EAGAIN)
      log_debug("watcher: {}", std::strerror(errno));
    for (size_t i = 0; i < all.size(); i++) all[i]->serve(std::span(fds).subspan(begins[i], begins[i + 1] - begins[i]));
  }
}

}  // namespace twohop
