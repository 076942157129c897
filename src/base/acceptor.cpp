// How does a listener let in only peers that prove themselves, whatever else connects to it?
//
// One poll over the listener and all connections that have not proved themselves yet. Each has kPatience from accept to
// proof, counted once, so that trickling bytes gains nothing. Everything is non-blocking: nobody waits for anybody.
#include <endian.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <list>
#include <optional>

#include "base/handshake.hpp"
#include "base/handshake_wire.hpp"
#include "base/log.hpp"

namespace twohop {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds kPatience{3};
constexpr std::chrono::milliseconds kAcceptPause{100};  // after the process ran out of descriptors or memory
constexpr size_t kMaxPending = 256;
constexpr int kAcceptsPerRound = 16;

Error another_secret() {
  Error e = make_error(twohopInvalidUsage, "it holds another secret or another unique id");
  e.sys_errno = EKEYREJECTED;
  return e;
}

/// A connection on its way to prove itself.
class Pending {
 public:
  explicit Pending(Fd fd) : fd_(std::move(fd)), deadline_(Clock::now() + kPatience) {}

  int fd() const { return fd_.get(); }
  Deadline deadline() const { return deadline_; }
  /// True when the peer has proved itself; an error when it must be dropped.
  Result<bool> step(const Secret& secret, Purpose purpose);
  Acceptor::Peer take() { return {std::move(fd_), Bytes(rest_.begin() + sizeof(wire::Proof), rest_.end())}; }

 private:
  Result<bool> read_opening(Purpose purpose);
  Result<bool> read_proof(const Secret& secret, Purpose purpose);
  Result<> reply(std::span<const std::byte> bytes);

  Fd fd_;
  Deadline deadline_;
  bool opened_ = false;
  wire::Opening theirs_, mine_;
  Bytes rest_;  // proof and hello
  size_t received_ = 0;
};

/// A reply is a few bytes into an empty send buffer: if they don't fit, the peer is not one of ours.
Result<> Pending::reply(std::span<const std::byte> bytes) {
  size_t sent = 0;
  auto done = wire::send_some(fd(), bytes, sent);
  if (!done) return done.error();
  if (!*done) return make_error(twohopRemoteError, "its receive buffer is full");
  return {};
}

Result<bool> Pending::read_opening(Purpose purpose) {
  auto complete = wire::receive_some(fd(), std::as_writable_bytes(std::span(&theirs_, 1)), received_);
  if (!complete) return complete;
  const size_t seen = std::min(received_, wire::kMagic.size());  // foreign protocols are dropped at their first bytes
  if (std::memcmp(&theirs_, wire::kMagic.data(), seen) != 0)
    return make_error(twohopInvalidUsage, "it does not speak twohop's protocol");
  if (!*complete) return false;
  if (std::string fault = wire::opening_fault(theirs_, wire::Role::kConnector, purpose); !fault.empty())
    return make_error(twohopInvalidUsage, "{}", fault);
  mine_ = wire::make_opening(wire::Role::kAcceptor, purpose, 0);
  if (auto sent = reply(std::as_bytes(std::span(&mine_, 1))); !sent) return sent.error();
  rest_.resize(sizeof(wire::Proof) + le32toh(theirs_.hello_bytes_le));
  received_ = 0;
  opened_ = true;
  return true;
}

Result<bool> Pending::read_proof(const Secret& secret, Purpose purpose) {
  auto complete = wire::receive_some(fd(), rest_, received_);
  if (!complete || !*complete) return complete;
  const auto hello = std::span(rest_).subspan(sizeof(wire::Proof));
  wire::Proof got;
  std::memcpy(got.data(), rest_.data(), got.size());
  if (!wire::same_proof(got, wire::prove(secret, wire::Role::kConnector, purpose, theirs_.nonce, mine_.nonce, hello)))
    return another_secret();
  const auto proof = wire::prove(secret, wire::Role::kAcceptor, purpose, theirs_.nonce, mine_.nonce, hello);
  if (auto sent = reply(std::as_bytes(std::span(proof))); !sent) return sent.error();
  return true;
}

Result<bool> Pending::step(const Secret& secret, Purpose purpose) {
  if (!opened_) {
    if (auto done = read_opening(purpose); !done || !*done) return done;
  }
  return read_proof(secret, purpose);
}

}  // namespace

struct Acceptor::State {
  Fd listener;
  Secret secret;
  Purpose purpose;
  std::list<Pending> pending;  // oldest first
  Deadline accept_from{};      // no accept before: out of descriptors
  bool warned = false;
  size_t unproved = 0;

  std::optional<Peer> serve(const std::vector<pollfd>& polled);
  Result<> accept_some();
  void accept_paused(int sys_errno);
  void drop_late();
  std::vector<pollfd> wait_list(int stop_fd) const;
  Deadline wake_at(Deadline deadline) const;
};

/// The order is: stop_fd, the listener, then all pending ones; serve() relies on it.
std::vector<pollfd> Acceptor::State::wait_list(int stop_fd) const {
  std::vector<pollfd> fds{{stop_fd, POLLIN, 0}, {Clock::now() < accept_from ? -1 : listener.get(), POLLIN, 0}};
  for (const Pending& p : pending) fds.push_back({p.fd(), POLLIN, 0});
  return fds;
}

Deadline Acceptor::State::wake_at(Deadline deadline) const {
  if (!pending.empty()) deadline = std::min(deadline, pending.front().deadline());
  return Clock::now() < accept_from ? std::min(deadline, accept_from) : deadline;
}

/// Lets the readable ones go on, until one has proved itself.
std::optional<Acceptor::Peer> Acceptor::State::serve(const std::vector<pollfd>& polled) {
  auto p = pending.begin();
  for (size_t i = 2; i < polled.size(); i++) {
    const auto it = p++;
    if (polled[i].revents == 0) continue;
    auto done = it->step(secret, purpose);
    if (!done) {
      log_debug("dropped a connection: {}", done.error().message);
      if (done.error().sys_errno == EKEYREJECTED) unproved++;
      pending.erase(it);
    } else if (*done) {
      Peer peer = it->take();
      pending.erase(it);
      return peer;
    }
  }
  return std::nullopt;
}

void Acceptor::State::accept_paused(int sys_errno) {
  // The connection stays in the backlog, so the listener stays readable: without a pause this would spin.
  accept_from = Clock::now() + kAcceptPause;
  if (!pending.empty()) pending.pop_front();
  if (!std::exchange(warned, true))
    log_warn("cannot accept connections for the moment: {}; raise 'ulimit -n' if this stays", std::strerror(sys_errno));
}

Result<> Acceptor::State::accept_some() {
  for (int i = 0; i < kAcceptsPerRound; i++) {
    Fd fd(accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (fd) {
      tune_socket(fd.get());
      pending.emplace_back(std::move(fd));
      if (pending.size() > kMaxPending) pending.pop_front();
      continue;
    }
    const int err = errno;
    if (err == EBADF || err == EINVAL || err == ENOTSOCK) return system_error(err, "the listening socket is unusable");
    if (err == EMFILE || err == ENFILE || err == ENOBUFS || err == ENOMEM) accept_paused(err);
    return {};  // nothing left, or a connection that failed before it was accepted
  }
  return {};
}

void Acceptor::State::drop_late() {
  while (!pending.empty() && pending.front().deadline() <= Clock::now()) {
    log_debug("dropped a connection that did not prove itself in {} s", kPatience.count());
    pending.pop_front();
  }
}

Acceptor::Acceptor(Fd listener, const Secret& secret, Purpose purpose)
    : state_(new State{std::move(listener), secret, purpose, {}}) {}
Acceptor::~Acceptor() = default;
int Acceptor::listener() const {
  return state_->listener.get();
}
size_t Acceptor::unproved() const {
  return state_->unproved;
}

Result<Acceptor::Peer> Acceptor::next(Deadline deadline, int stop_fd) {
  State& s = *state_;
  for (;;) {
    std::vector<pollfd> fds = s.wait_list(stop_fd);
    const int n = poll(fds.data(), fds.size(), poll_timeout_ms(s.wake_at(deadline)));
    if (n < 0 && errno != EINTR) return system_error(errno, "poll failed");
    if (n > 0 && fds[0].revents != 0) return make_error(twohopAborted, "waiting for connections was stopped");
    // Accepts only when nobody is ready, so that a crowd that arrives at once is served before more is let in.
    if (n > 0)
      if (auto peer = s.serve(fds)) return std::move(*peer);
    if (n > 0 && fds[1].revents != 0)
      if (auto accepted = s.accept_some(); !accepted) return accepted.error();
    s.drop_late();  // after serving: the caller may have been away for longer than kPatience
    if (Clock::now() >= deadline)
      return make_error(twohopTimeout, "nobody connected and proved itself before the deadline");
  }
}

}  // namespace twohop
