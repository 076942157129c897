// How do sockets listen, connect, send and receive with a deadline? Addresses are in socket_address.cpp, the choice of
// an interface in interface.cpp.
#include "base/socket.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace twohop {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr milliseconds kRetryMin{5}, kRetryMax{200};

void set_option(int fd, int level, int name, int value) {
  setsockopt(fd, level, name, &value, sizeof value);
}

Error closed_by_peer(int sys_errno) {
  Error e = make_error(twohopRemoteError, "the peer closed the connection{}{}", sys_errno ? ": " : "",
                       sys_errno ? std::strerror(sys_errno) : "");
  e.sys_errno = sys_errno;
  return e;
}

Error transfer_error(const char* what) {
  const int err = errno;
  if (err == ECONNRESET || err == EPIPE || err == ETIMEDOUT || err == EHOSTUNREACH || err == ENETUNREACH)
    return closed_by_peer(err);
  return system_error(err, "{} failed", what);
}

bool transient(int err) {
  return err == EAGAIN || err == EWOULDBLOCK || err == EINTR;
}

/// Errors after which the same address may answer a little later.
bool worth_retrying(int err) {
  return err == ECONNREFUSED || err == ECONNRESET || err == ECONNABORTED || err == EAGAIN || err == EADDRNOTAVAIL;
}

/// A client port chosen by the kernel can equal the port it connects to (both ends on one host, nobody listening):
/// TCP then connects the socket to itself.
bool connected_to_itself(int fd) {
  sockaddr_storage mine{}, theirs{};
  socklen_t mine_len = sizeof mine, theirs_len = sizeof theirs;
  return getsockname(fd, reinterpret_cast<sockaddr*>(&mine), &mine_len) == 0 &&
         getpeername(fd, reinterpret_cast<sockaddr*>(&theirs), &theirs_len) == 0 && mine_len == theirs_len &&
         std::memcmp(&mine, &theirs, mine_len) == 0;
}

/// One try; the errno of its failure, 0 when `fd` is connected, ETIMEDOUT at the deadline, ECANCELED when stopped.
int try_connect(int fd, const SocketAddress& address, Deadline deadline, int stop_fd) {
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address.storage), address.length) != 0) {
    if (errno != EINPROGRESS && errno != EINTR) return errno;
    auto ready = wait_for_fd(fd, POLLOUT, deadline, stop_fd);
    if (!ready && ready.error().code == twohopAborted) return ECANCELED;
    if (!ready) return ready.error().code == twohopTimeout ? ETIMEDOUT : ready.error().sys_errno;
    int err = 0;
    socklen_t length = sizeof err;
    getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &length);
    if (err != 0) return err;
  }
  return connected_to_itself(fd) ? ECONNREFUSED : 0;
}

Error connect_error(const SocketAddress& address, int err) {
  const bool waited = worth_retrying(err) || err == ETIMEDOUT;
  Error e = make_error(waited ? twohopTimeout : twohopSystemError,
                       "cannot connect to {}: {} (errno {}). Check that the process that should listen there runs, "
                       "that the address can be reached from this host and that no firewall drops the port",
                       address.to_string(), std::strerror(err), err);
  e.sys_errno = err;
  return e;
}

}  // namespace

void Fd::reset() {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

Fd& Fd::operator=(Fd&& o) noexcept {
  if (this != &o) {
    reset();
    fd_ = o.release();
  }
  return *this;
}

int poll_timeout_ms(Deadline deadline) {
  const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now()).count();
  return static_cast<int>(std::clamp<int64_t>(left, 0, 60'000));
}

Result<> wait_for_fd(int fd, short events, Deadline deadline, int stop_fd) {
  for (;;) {
    pollfd p[2] = {{fd, events, 0}, {stop_fd, POLLIN, 0}};  // poll ignores negative ones
    const int n = poll(p, 2, poll_timeout_ms(deadline));
    if (n > 0 && p[1].revents != 0) return make_error(twohopAborted, "waiting was stopped");
    if (n > 0) return {};
    if (n < 0 && errno != EINTR) return system_error(errno, "poll failed");
    if (n == 0 && Clock::now() >= deadline) return make_error(twohopTimeout, "the deadline passed");
  }
}

Result<Fd> listen_on(const SocketAddress& address, int backlog) {
  Fd fd(socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) return system_error(errno, "cannot open a socket to listen on {}", address.to_string());
  set_option(fd.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&address.storage), address.length) != 0)
    return system_error(errno, "cannot bind {}", address.to_string());
  if (listen(fd.get(), backlog) != 0) return system_error(errno, "cannot listen on {}", address.to_string());
  return Result<Fd>(std::move(fd));
}

Result<SocketAddress> local_address(int fd) {
  SocketAddress a;
  a.length = sizeof a.storage;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&a.storage), &a.length) != 0)
    return system_error(errno, "getsockname failed");
  return a;
}

Result<Fd> connect_to(const SocketAddress& address, Deadline deadline, int stop_fd) {
  for (milliseconds pause = kRetryMin;; pause = std::min(2 * pause, kRetryMax)) {
    Fd fd(socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!fd) return system_error(errno, "cannot open a socket to connect to {}", address.to_string());
    // The port that the kernel picks for this end may be the one on which somebody here is about to listen.
    set_option(fd.get(), SOL_SOCKET, SO_REUSEADDR, 1);
    const int err = try_connect(fd.get(), address, deadline, stop_fd);
    if (err == 0) {
      tune_socket(fd.get());
      return Result<Fd>(std::move(fd));
    }
    const bool retried = worth_retrying(err) && Clock::now() + pause < deadline;
    pollfd stop{stop_fd, POLLIN, 0};
    if (err == ECANCELED || (retried && poll(&stop, 1, static_cast<int>(pause.count())) > 0))
      return make_error(twohopAborted, "connecting to {} was stopped", address.to_string());
    if (!retried) return connect_error(address, err);
  }
}

void tune_socket(int fd) {
  set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, 3);
  set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, 1);
  set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, 5);
}

void fail_when_unacknowledged(int fd, milliseconds limit) {
  set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(limit.count()));
}

Result<> send_all(int fd, std::span<const std::byte> data, Deadline deadline) {
  while (!data.empty()) {
    const ssize_t n = send(fd, data.data(), data.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n >= 0) {
      data = data.subspan(static_cast<size_t>(n));
    } else if (!transient(errno)) {
      return transfer_error("send");
    } else if (auto ready = wait_for_fd(fd, POLLOUT, deadline); !ready) {
      return ready;
    }
  }
  return {};
}

Result<> receive_all(int fd, std::span<std::byte> data, Deadline deadline) {
  while (!data.empty()) {
    const ssize_t n = recv(fd, data.data(), data.size(), MSG_DONTWAIT);
    if (n == 0) return closed_by_peer(0);
    if (n > 0) {
      data = data.subspan(static_cast<size_t>(n));
    } else if (!transient(errno)) {
      return transfer_error("recv");
    } else if (auto ready = wait_for_fd(fd, POLLIN, deadline); !ready) {
      return ready;
    }
  }
  return {};
}

}  // namespace twohop
