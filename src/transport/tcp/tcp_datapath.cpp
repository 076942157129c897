// How the tcp endpoint moves data once connected: batches, one epoll over all sockets, and an orderly end.
#include "transport/tcp/tcp_endpoint.hpp"

#include <linux/sockios.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/check.hpp"
#include "base/log.hpp"

namespace twohop::tcp {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// How often a drain looks whether the peer's host has everything; a round trip is shorter, a quantum not much longer.
constexpr milliseconds kLingerSlice{2};
constexpr milliseconds kDrainSlice{100};

/// Sleeps until `fd` is readable, for at most `slice` and not past the deadline. False once the deadline has passed.
bool wait_readable(int fd, milliseconds slice, Deadline deadline) {
  const auto left = std::chrono::ceil<milliseconds>(deadline - steady_clock::now());
  if (left.count() <= 0) return false;
  pollfd p{fd, POLLIN, 0};
  ::poll(&p, 1, static_cast<int>(std::min(left, slice).count()));  // EINTR: the caller looks again anyway
  return true;
}

/// Whether the peer's host has acknowledged all that was sent, so that closing can lose nothing.
bool all_acknowledged(int fd) {
  int unacknowledged = 0;
  return ::ioctl(fd, SIOCOUTQ, &unacknowledged) != 0 || unacknowledged == 0;
}

}  // namespace

void TcpEndpoint::mark_dirty(Connection& c) {
  if (c.dirty) return;
  c.dirty = true;
  dirty_.push_back(&c);
}

void TcpEndpoint::put(size_t out_link, const CallTag& tag, std::span<const PutRun> runs) {
  TWOHOP_CHECK(out_link < out_connection_.size(), "out link {} of {}", out_link, out_connection_.size());
  Connection& c = *out_connection_[out_link];
  c.put(out_[out_link], tag, runs);
  mark_dirty(c);
}

void TcpEndpoint::release(size_t in_link) {
  TWOHOP_CHECK(in_link < in_place_.size(), "in link {} of {}", in_link, in_place_.size());
  const InPlace& place = in_place_[in_link];
  place.connection->release(place.index);
  mark_dirty(*place.connection);
}

Error TcpEndpoint::die(Error e) {
  log_debug("{}", e.message);  // the communicator decides whether this is the cause
  dead_ = std::move(e);
  return *dead_;
}

/// Asks to be woken for writing only while output is pending, and no more at all once the peer has left.
Result<> TcpEndpoint::set_interest(Connection& c) {
  const uint32_t wanted = c.peer_left() ? 0 : EPOLLIN | (c.has_output() ? uint32_t{EPOLLOUT} : 0);
  if (wanted == c.epoll_interest) return {};
  c.epoll_interest = wanted;
  epoll_event event{};
  event.events = wanted;
  event.data.ptr = &c;
  // A socket whose peer has left would report its hang-up for ever, whatever the events asked for.
  if (::epoll_ctl(epoll_.get(), wanted == 0 ? EPOLL_CTL_DEL : EPOLL_CTL_MOD, c.fd(), &event) == 0) return {};
  return system_error(errno, "cannot change what is awaited of {}", c.name());
}

Result<> TcpEndpoint::flush() {
  if (dead_) return *dead_;
  if (dirty_.empty()) return {};
  ++counters_.flushes;
  for (Connection* c : dirty_) {
    c->dirty = false;
    if (c->epoll_interest & EPOLLOUT) continue;  // the kernel's buffer is full: poll() goes on when it is not
    auto sent = c->send();
    if (!sent) return die(sent.error());
    changed_in_flush_ |= *sent;
    if (auto r = set_interest(*c); !r) return die(r.error());
  }
  dirty_.clear();
  return {};
}

Result<bool> TcpEndpoint::serve(Connection& c, uint32_t events) {
  bool changed = false;
  // Input first: if the peer has closed, what it said before explains more than a failed send.
  if (events & ~uint32_t{EPOLLOUT}) {
    auto r = c.receive();
    if (!r) return r;
    changed |= *r;
  }
  if ((c.epoll_interest & EPOLLOUT) && (events & ~uint32_t{EPOLLIN}) && !c.peer_left()) {
    auto r = c.send();
    if (!r) return r;
    changed |= *r;
  }
  if (auto r = set_interest(c); !r) return r.error();
  return changed;
}

Result<bool> TcpEndpoint::poll() {
  if (dead_) return *dead_;
  if (connections_.empty()) return false;
  const int n = ::epoll_wait(epoll_.get(), events_.data(), static_cast<int>(events_.size()), 0);
  if (n < 0 && errno == EINTR) return false;
  if (n < 0) return die(system_error(errno, "epoll_wait of the tcp endpoint"));
  bool changed = std::exchange(changed_in_flush_, false);  // or the caller would go to sleep on them
  for (int i = 0; i < n; ++i) {
    auto r = serve(*static_cast<Connection*>(events_[i].data.ptr), events_[i].events);
    if (!r) return die(r.error());
    changed |= *r;
  }
  return changed;
}

void TcpEndpoint::wait_for(std::vector<pollfd>& fds) {
  if (!connections_.empty()) fds.push_back({epoll_.get(), POLLIN, 0});
}

bool TcpEndpoint::all_consumed() const {
  return std::all_of(out_.begin(), out_.end(), [](const OutLink& l) { return l.consumed == l.posted; });
}

bool TcpEndpoint::all_written() const {
  return std::all_of(connections_.begin(), connections_.end(),
                     [](const Connection& c) { return c.peer_left() || !c.has_output(); });
}

Error TcpEndpoint::unconsumed() const {
  for (const OutLink& l : out_) {
    if (l.consumed == l.posted) continue;
    Error e = make_error(twohopTimeout,
                         "rank {} has consumed {} of {} puts (channel {}, link tag {}) at the deadline: it is late or "
                         "stuck in another call",
                         l.id.dst, l.consumed, l.posted, l.id.channel, l.id.tag);
    e.scope = Scope::kPeer;
    e.rank = l.id.dst;
    return e;
  }
  return make_error(twohopTimeout, "the tcp endpoint's last bytes were not sent at the deadline");
}

/// Polls, asleep while nothing happens, until `done` or the deadline.
Result<> TcpEndpoint::progress_until(bool (TcpEndpoint::*done)() const, Deadline deadline) {
  for (;;) {
    auto r = poll();
    if (!r) return r.error();
    if ((this->*done)()) return {};
    if (!*r && !wait_readable(epoll_.get(), kDrainSlice, deadline)) return die(unconsumed());
  }
}

/// Waits until every peer has left or its host has all our bytes, reading meanwhile: closing a socket with unread
/// input answers with a reset, and that could overtake our last frames.
void TcpEndpoint::linger(Deadline deadline) {
  for (Connection& c : connections_)
    if (!c.peer_left()) ::shutdown(c.fd(), SHUT_WR);
  for (Connection& c : connections_) {
    // An error now only means that the peer is gone.
    while (!c.peer_left() && c.receive() && !c.peer_left() && !all_acknowledged(c.fd()))
      if (!wait_readable(c.fd(), kLingerSlice, deadline)) break;
  }
}

Result<> TcpEndpoint::drain(Deadline deadline) {
  if (auto r = flush(); !r) return r;
  if (auto r = progress_until(&TcpEndpoint::all_consumed, deadline); !r) return r;
  for (Connection& c : connections_) {
    if (c.peer_left()) continue;
    c.say_goodbye();
    mark_dirty(c);
  }
  if (auto r = flush(); !r) return r;
  if (auto r = progress_until(&TcpEndpoint::all_written, deadline); !r) return r;
  linger(deadline);
  dead_ = make_error(twohopInvalidUsage, "the tcp endpoint of rank {} is used after drain()", rank_);
  return {};
}

}  // namespace twohop::tcp
