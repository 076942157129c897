// See fork_guard.hpp.
#include "bootstrap/fork_guard.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>
#include <vector>

namespace twohop {
namespace {

struct Guarded {
  std::mutex mutex;
  std::vector<int> fds;
};

void before_fork();
void after_fork_in_parent();
void after_fork_in_child();

/// Never freed: a process may fork while it exits.
Guarded& guarded() {
  static Guarded* g = [] {
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
    return new Guarded;
  }();
  return *g;
}

void before_fork() {
  guarded().mutex.lock();
}
void after_fork_in_parent() {
  guarded().mutex.unlock();
}

/// Only calls that are safe in the child of a process with several threads.
void after_fork_in_child() {
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const int fd : guarded().fds) {
    if (null >= 0)
      dup3(null, fd, O_CLOEXEC);
    else
      close(fd);
  }
  if (null >= 0) close(null);
  guarded().mutex.unlock();
}

}  // namespace

void forget_in_forked_children(int fd) {
  Guarded& g = guarded();
  const std::lock_guard lock(g.mutex);
  g.fds.push_back(fd);
}

void no_longer_guarded(int fd) {
  Guarded& g = guarded();
  const std::lock_guard lock(g.mutex);
  const auto at = std::find(g.fds.begin(), g.fds.end(), fd);
  if (at != g.fds.end()) g.fds.erase(at);
}

}  // namespace twohop
