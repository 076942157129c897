// Which unique id do launcher variables imply, and who serves it? Rank 0's process, on TWOHOP_PORT.
#include <fcntl.h>
#include <poll.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <deque>
#include <map>
#include <mutex>
#include <thread>

#include "base/log.hpp"
#include "bootstrap/rendezvous.hpp"
#include "bootstrap/service_thread.hpp"
#include "bootstrap/unique_id.hpp"

namespace twohop {
namespace {

Result<int> rendezvous_port(const LauncherEnv& launcher, const Options& options) {
  if (options.port != 0) return static_cast<int>(options.port);
  if (launcher.master_port < 1 || launcher.master_port >= 65535)
    return make_error(twohopInvalidArgument,
                      "MASTER_PORT={}: accepted are 1 to 65534; the launcher sets it, and rank 0 listens on "
                      "MASTER_PORT + 1; or set TWOHOP_PORT",
                      launcher.master_port);
  return launcher.master_port + 1;
}

Result<> check_secret(const LauncherEnv& launcher, const SocketAddress& root, const Options& options) {
  if (!options.job_secret.empty() || root.is_loopback()) return {};
  return make_error(twohopInvalidUsage,
                    "MASTER_ADDR={} ({}) is not a loopback address and TWOHOP_JOB_SECRET is not set: set "
                    "TWOHOP_JOB_SECRET to the same hard-to-guess text on all ranks, so that only they can join",
                    launcher.master_addr, root.to_string());
}

/// A host's own name often resolves to 127.0.1.1 on that host: nobody else reaches that.
bool only_looks_like_loopback(const std::string& host, const SocketAddress& a) {
  return a.is_loopback() && host != "localhost" && !host.starts_with("127.") && host.find(':') == host.npos;
}

SocketAddress any_address_like(const SocketAddress& a) {
  auto any = resolve(a.storage.ss_family == AF_INET6 ? "::" : "0.0.0.0", a.port());
  return any ? *any : a;
}

/// The port may be taken for a moment by a connection of somebody's that the kernel gave this very number.
Result<Fd> listen_when_free(const SocketAddress& address) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(3);
  for (;;) {
    auto listener = listen_on(address);
    if (listener || listener.error().sys_errno != EADDRINUSE || std::chrono::steady_clock::now() > deadline)
      return listener;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

Result<Fd> open_root_listener(const LauncherEnv& launcher, const SocketAddress& root, const Options& options) {
  const bool any_allowed = !options.job_secret.empty();
  if (any_allowed && only_looks_like_loopback(launcher.master_addr, root)) return listen_on(any_address_like(root));
  auto listener = listen_when_free(root);
  if (!listener && any_allowed && listener.error().sys_errno == EADDRNOTAVAIL)  // behind address translation
    listener = listen_on(any_address_like(root));
  if (!listener && listener.error().sys_errno == EADDRINUSE)
    listener.error().message +=
        ". Another job or program holds the rendezvous port: set TWOHOP_PORT to a free one on all ranks";
  return listener;
}

/// The communicators rooted on one port, served one after the other: a rank that is early for the next one is refused
/// for its secret, or waits in the backlog, and tries again.
class PortQueue {
 public:
  using Open = std::function<Result<Fd>()>;
  Result<> add(const Secret& secret, std::chrono::seconds timeout, const Open& open);

 private:
  void serve(int stop_fd);
  bool take(Secret& secret, Fd& listener, std::chrono::seconds& timeout);

  std::mutex mutex_;
  std::deque<Secret> waiting_;
  std::chrono::seconds timeout_{};
  Fd listener_;  // open while the thread serves
  std::unique_ptr<ServiceThread> thread_;
};

Result<> PortQueue::add(const Secret& secret, std::chrono::seconds timeout, const Open& open) {
  const std::lock_guard lock(mutex_);
  timeout_ = timeout;
  if (listener_) {
    waiting_.push_back(secret);
    return {};
  }
  auto listener = open();
  if (!listener) return listener.error();
  thread_.reset();  // it has closed the listener, so it is at its end
  listener_ = std::move(*listener);
  waiting_.push_back(secret);
  auto thread = ServiceThread::start("twohop-root", [this](int stop_fd) { serve(stop_fd); });
  if (!thread) {
    listener_.reset();
    waiting_.clear();
    return thread.error();
  }
  thread_ = std::move(*thread);
  return {};
}

/// The next communicator and a descriptor of its own for the listener; closes the listener when there is none.
bool PortQueue::take(Secret& secret, Fd& listener, std::chrono::seconds& timeout) {
  const std::lock_guard lock(mutex_);
  timeout = timeout_;
  if (!waiting_.empty()) {
    secret = waiting_.front();
    waiting_.pop_front();
    listener = Fd(fcntl(listener_.get(), F_DUPFD_CLOEXEC, 0));
    if (listener) return true;
    log_warn("the rendezvous ends: no file descriptor left; raise 'ulimit -n'");
  }
  waiting_.clear();
  listener_.reset();
  return false;
}

void PortQueue::serve(int stop_fd) {
  Secret secret;
  Fd listener;
  std::chrono::seconds timeout;
  while (take(secret, listener, timeout)) {
    serve_rendezvous(std::move(listener), secret, std::chrono::steady_clock::now() + timeout, stop_fd);
    if (wait_for_fd(stop_fd, POLLIN, Deadline{})) return;  // readable: told to stop
  }
}

/// One queue for each address; the destructors, at exit, stop those whose ranks never came.
PortQueue& queue_of(const SocketAddress& root) {
  static std::mutex mutex;
  static std::map<std::string, PortQueue> queues;
  const std::lock_guard lock(mutex);
  return queues[root.to_string()];
}

}  // namespace

Result<twohopUniqueId> make_env_unique_id(const LauncherEnv& launcher, const Options& options, uint64_t sequence) {
  auto port = rendezvous_port(launcher, options);
  if (!port) return port.error();
  auto root = resolve(launcher.master_addr, *port);
  if (!root) {
    root.error().message = "MASTER_ADDR: " + root.error().message;
    return root.error();
  }
  if (auto allowed = check_secret(launcher, *root, options); !allowed) return allowed.error();
  const Secret secret = derive_secret(options.job_secret, fmt::format("environment/{}/{}", *port, sequence));
  if (launcher.rank == 0) {
    auto added = queue_of(*root).add(secret, std::chrono::seconds(options.init_timeout_s),
                                     [&] { return open_root_listener(launcher, *root, options); });
    if (!added) return added.error();
  }
  return encode(UniqueIdContent{*root, secret, true});
}

Result<twohopUniqueId> make_env_unique_id(const LauncherEnv& launcher, const Options& options) {
  static std::atomic<uint64_t> next_sequence{0};
  return make_env_unique_id(launcher, options, next_sequence++);
}

}  // namespace twohop
