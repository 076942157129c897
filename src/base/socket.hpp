// Plain TCP sockets with deadlines: addresses, interface choice, listen, connect, send, receive. No protocol.
#pragma once

#include <sys/socket.h>

#include <chrono>
#include <cstddef>
#include <span>
#include <string>
#include <utility>

#include "base/result.hpp"

namespace twohop {

using Deadline = std::chrono::steady_clock::time_point;

/// A file descriptor that closes itself.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& o) noexcept : fd_(std::exchange(o.fd_, -1)) {}
  Fd& operator=(Fd&& o) noexcept;
  ~Fd() { reset(); }
  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  int release() { return std::exchange(fd_, -1); }
  void reset();

 private:
  int fd_ = -1;
};

/// An IPv4 or IPv6 address with a port. Trivially copyable: travels as bytes in blobs.
struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;

  std::string to_string() const;  // "10.0.0.1:4711", "[fe80::1%eth0]:4711"
  bool is_loopback() const;
  int port() const;
  void set_port(int port);
};

/// Address of `host` (name or literal) with `port`.
Result<SocketAddress> resolve(const std::string& host, int port);

struct ChosenInterface {
  std::string name;
  SocketAddress address;  // port 0
};
/// The interface that TWOHOP_SOCKET_IFNAME's syntax selects: a comma list of prefixes, "=" exact names, "^" exclusion;
/// "" skips lo and docker*, and falls back to lo when nothing else is up.
/// The error lists the interfaces there are, and why each was passed over.
Result<ChosenInterface> choose_interface(const std::string& spec);

Result<Fd> listen_on(const SocketAddress& address, int backlog = 1024);
Result<SocketAddress> local_address(int fd);

/// Connects, retrying refused connections until the deadline. The socket is non-blocking, TCP_NODELAY, with keepalive
/// set so that a lost host is noticed in under 10 s while nothing is in flight. twohopAborted when stop_fd becomes
/// readable.
Result<Fd> connect_to(const SocketAddress& address, Deadline deadline, int stop_fd = -1);
/// The same socket options for an accepted socket.
void tune_socket(int fd);

/// Fails the connection when sent bytes stay unacknowledged, or unread behind a full receive window, for `limit`
/// (TCP_USER_TIMEOUT). Only for sockets whose peer always reads: Linux also counts the time that a living peer leaves
/// its window closed, so a data socket would break while the receiver merely computes.
void fail_when_unacknowledged(int fd, std::chrono::milliseconds limit);

/// Milliseconds for poll() until the deadline, rounded up; 0 once it has passed, 60 s at most.
int poll_timeout_ms(Deadline deadline);
/// Waits for any of `events` (or an error or hang-up) on fd; twohopTimeout at the deadline, twohopAborted when stop_fd
/// becomes readable.
Result<> wait_for_fd(int fd, short events, Deadline deadline, int stop_fd = -1);

/// Whole buffers or an error; a peer that closed gives twohopRemoteError, a passed deadline twohopTimeout.
Result<> send_all(int fd, std::span<const std::byte> data, Deadline deadline);
Result<> receive_all(int fd, std::span<std::byte> data, Deadline deadline);

}  // namespace twohop
