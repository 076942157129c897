// A background thread that can be told to stop, and is joined before the process's statics go.
//
// It receives no signals (they belong to the application's threads). In a forked child, where the thread does not
// exist, its object does nothing.
#pragma once

#include <unistd.h>

#include <atomic>
#include <functional>
#include <memory>
#include <thread>

#include "base/result.hpp"
#include "base/socket.hpp"

namespace twohop {

class ServiceThread {
 public:
  /// body gets an eventfd that becomes readable when the thread must end. `name` has at most 15 characters.
  static Result<std::unique_ptr<ServiceThread>> start(const char* name, std::function<void(int stop_fd)> body);
  /// Stops and joins; from the thread itself it only lets go of it.
  ~ServiceThread();
  bool finished() const { return finished_; }

 private:
  ServiceThread() = default;
  Fd stop_;
  std::atomic<bool> finished_{false};
  pid_t process_ = getpid();
  std::unique_ptr<std::thread> thread_;
};

/// Makes an eventfd readable.
void signal_event(int event_fd);

}  // namespace twohop
