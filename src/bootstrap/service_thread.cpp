// See service_thread.hpp.
#include "bootstrap/service_thread.hpp"

#include <pthread.h>
#include <sys/eventfd.h>

#include <cerrno>
#include <csignal>
#include <system_error>

namespace twohop {
namespace {

/// Blocks all signals in this thread, and so in threads it starts, while it lives.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

}  // namespace

void signal_event(int event_fd) {
  const uint64_t one = 1;
  // Only fails when the counter is full, and then it is readable already.
  if (write(event_fd, &one, sizeof one) < 0) return;
}

Result<std::unique_ptr<ServiceThread>> ServiceThread::start(const char* name, std::function<void(int)> body) {
  std::unique_ptr<ServiceThread> s(new ServiceThread);
  s->stop_ = Fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!s->stop_) return system_error(errno, "cannot create an event descriptor for the thread {}", name);
  const SignalsBlocked blocked;
  try {
    s->thread_ = std::make_unique<std::thread>([self = s.get(), body = std::move(body)] {
      body(self->stop_.get());
      self->finished_ = true;
    });
  } catch (const std::system_error& e) {
    return system_error(e.code().value(), "cannot start the thread {}; raise 'ulimit -u'", name);
  }
  pthread_setname_np(s->thread_->native_handle(), name);
  return Result<std::unique_ptr<ServiceThread>>(std::move(s));
}

ServiceThread::~ServiceThread() {
  if (!thread_) return;
  if (process_ != getpid()) {
    (void)thread_.release();  // a forked child: there is nothing to join, and std::thread would terminate
    return;
  }
  signal_event(stop_.get());
  if (thread_->get_id() == std::this_thread::get_id()) {
    thread_->detach();
  } else {
    thread_->join();
  }
}

}  // namespace twohop
