// The one thread of a process that listens on the control sockets of all its communicators, and on their idle
// endpoints, asleep in poll.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "bootstrap/service_thread.hpp"
#include "bootstrap/watched.hpp"

namespace twohop {

class Watcher {
 public:
  /// Started at the first use; ends with the process's statics and the last communicator.
  static Result<std::shared_ptr<Watcher>> instance();

  /// From any thread. The watcher keeps it until it is finished.
  void add(std::shared_ptr<Watched> watched);
  /// After something watched has more to do or may be finished.
  void wake();

 private:
  Watcher() = default;
  void run(int stop_fd);
  std::vector<std::shared_ptr<Watched>> current();

  Fd wake_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<Watched>> watched_;
  std::unique_ptr<ServiceThread> thread_;  // last: joined before the rest goes
};

}  // namespace twohop
