// How the tcp endpoint gets its connections: one socket per (channel, pair of ranks), the lower rank connects to the
// higher. Both ends prove the secret, then compare what links they expect. No payload moves here.
#include <sys/eventfd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <thread>

#include "base/check.hpp"
#include "base/log.hpp"
#include "transport/tcp/tcp_endpoint.hpp"

namespace twohop {
namespace tcp {
namespace {

constexpr size_t kMaxNamedPairs = 8;              // in a message
constexpr std::chrono::seconds kConnectSlice{2};  // how soon a failed accepting side ends the connecting side

template <class T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

Error about_peer(Error e, const Pair& p) {
  e.message = fmt::format("data connection with rank {} (channel {}): {}", p.peer, p.channel, e.message);
  e.scope = Scope::kPeer;
  e.rank = p.peer;
  return e;
}

Result<SocketAddress> parse_address(std::span<const Bytes> all, int rank) {
  TWOHOP_CHECK(rank >= 0 && static_cast<size_t>(rank) < all.size(), "rank {} of {}", rank, all.size());
  const Bytes& blob = all[static_cast<size_t>(rank)];
  SocketAddress address;
  if (blob.size() != sizeof address)
    return make_error(twohopInternalError, "address of rank {} has {} bytes, a tcp address has {}", rank, blob.size(),
                      sizeof address);
  std::memcpy(&address, blob.data(), sizeof address);
  const auto family = address.storage.ss_family;
  if (address.length > sizeof address.storage || (family != AF_INET && family != AF_INET6))
    return make_error(twohopInternalError, "address of rank {} has family {} and length {}", rank, family,
                      address.length);
  return address;
}

/// twohopTimeout naming the peers that did not come.
Error missing_peers(std::span<const Pair> pairs) {
  std::string names;
  size_t missing = 0;
  int first = -1;
  for (const Pair& p : pairs) {
    if (p.fd) continue;
    if (first < 0) first = p.peer;
    if (++missing <= kMaxNamedPairs)
      names += fmt::format("{}rank {} (channel {})", names.empty() ? "" : ", ", p.peer, p.channel);
  }
  Error e = make_error(twohopTimeout,
                       "no data connection came from {}{} until the deadline: look at the log of these ranks, and "
                       "whether they can reach this host through TWOHOP_SOCKET_IFNAME",
                       names, missing > kMaxNamedPairs ? fmt::format(" and {} more", missing - kMaxNamedPairs) : "");
  e.scope = Scope::kPeer;
  e.rank = first;
  return e;
}

/// connect_to(), unless `stop` is set meanwhile.
Result<Fd> connect_unless(const std::atomic<bool>& stop, const SocketAddress& address, Deadline deadline) {
  for (;;) {
    auto fd = connect_to(address, std::min(deadline, std::chrono::steady_clock::now() + kConnectSlice));
    if (fd || fd.error().code != twohopTimeout) return fd;
    if (stop || std::chrono::steady_clock::now() >= deadline) return fd;
  }
}

}  // namespace

TcpEndpoint::TcpEndpoint(int rank, const Secret& secret, const SocketAddress& address, Fd listener, Fd epoll)
    : rank_(rank),
      secret_(secret),
      listen_address_(address),
      acceptor_(std::make_unique<Acceptor>(std::move(listener), secret, Purpose::kData)),
      epoll_(std::move(epoll)) {}

Bytes TcpEndpoint::address() const {
  const auto bytes = bytes_of(listen_address_);
  return Bytes(bytes.begin(), bytes.end());
}

/// The links grouped by (peer, channel): one socket each.
std::vector<Pair> TcpEndpoint::make_pairs() {
  std::map<std::pair<int, uint16_t>, Pair> by_key;
  auto pair_of = [&](int peer, uint16_t channel) -> Pair& {
    Pair& p = by_key[{peer, channel}];
    p.peer = peer;
    p.channel = channel;
    return p;
  };
  for (OutLink& l : out_) {
    TWOHOP_CHECK(l.id.src == rank_ && l.id.dst != rank_, "out link {} to {} at rank {}", l.id.src, l.id.dst, rank_);
    pair_of(l.id.dst, l.id.channel).out.push_back(&l);
  }
  for (InLink& l : in_) {
    TWOHOP_CHECK(l.id.dst == rank_ && l.id.src != rank_, "in link {} to {} at rank {}", l.id.src, l.id.dst, rank_);
    pair_of(l.id.src, l.id.channel).in.push_back(&l);
  }
  std::vector<Pair> pairs;
  for (auto& [key, p] : by_key) pairs.push_back(std::move(p));
  return pairs;
}

Result<> TcpEndpoint::connect_higher(std::span<Pair> pairs, std::span<const Bytes> all_addresses,
                                     const std::atomic<bool>& stop, Deadline deadline) {
  for (Pair& p : pairs) {
    auto address = parse_address(all_addresses, p.peer);
    if (!address) return address.error();
    auto fd = connect_unless(stop, *address, deadline);
    if (!fd) return about_peer(fd.error(), p);
    const Hello hello{kWireVersion, 0, htole16(p.channel), static_cast<int32_t>(htole32(rank_)),
                      static_cast<int32_t>(htole32(p.peer))};
    if (auto r = handshake(fd->get(), secret_, Purpose::kData, bytes_of(hello), deadline); !r)
      return about_peer(r.error(), p);
    if (auto r = agree_on_links(p, fd->get(), deadline); !r) return about_peer(r.error(), p);
    log_debug("rank {}: connected to rank {} at {}, channel {}", rank_, p.peer, address->to_string(), p.channel);
    p.fd = std::move(*fd);
  }
  return {};
}

/// The pair that an authenticated hello belongs to.
Result<Pair*> TcpEndpoint::identify(std::span<Pair> pairs, const Bytes& bytes) const {
  Hello h{};
  if (bytes.size() != sizeof h)
    return make_error(twohopRemoteError,
                      "a data connection's hello has {} bytes, expected {}: all ranks must run the "
                      "same twohop version",
                      bytes.size(), sizeof h);
  std::memcpy(&h, bytes.data(), sizeof h);
  const int src = static_cast<int32_t>(le32toh(h.src)), dst = static_cast<int32_t>(le32toh(h.dst));
  const uint16_t channel = le16toh(h.channel);
  auto it = std::find_if(pairs.begin(), pairs.end(),
                         [&](const Pair& p) { return p.peer == src && p.channel == channel && !p.fd; });
  if (h.version == kWireVersion && dst == rank_ && it != pairs.end()) return &*it;
  return make_error(twohopRemoteError,
                    "rank {} asks rank {} for a data connection on channel {} (data protocol {}): rank {} expects none "
                    "such; all ranks must plan the same cluster with the same TWOHOP_* settings",
                    src, dst, channel, h.version, rank_);
}

Result<> TcpEndpoint::accept_lower(std::span<Pair> pairs, int stop_fd, Deadline deadline) {
  for (size_t missing = pairs.size(); missing > 0; --missing) {
    auto peer = acceptor_->next(deadline, stop_fd);
    if (!peer) return peer.error().code == twohopTimeout ? missing_peers(pairs) : peer.error();
    auto pair = identify(pairs, peer->hello);
    if (!pair) return pair.error();
    Pair& p = **pair;
    if (auto r = agree_on_links(p, peer->fd.get(), deadline); !r) return about_peer(r.error(), p);
    log_debug("rank {}: accepted rank {}, channel {}", rank_, p.peer, p.channel);
    p.fd = std::move(peer->fd);
  }
  return {};
}

/// Connects and accepts at once: were they in turn, a ring of ranks would come up one after the other.
Result<> TcpEndpoint::connect_pairs(std::span<Pair> pairs, std::span<const Bytes> all_addresses, Deadline deadline) {
  const auto first_higher = std::partition_point(pairs.begin(), pairs.end(),  // they are sorted by peer
                                                 [&](const Pair& p) { return p.peer < rank_; });
  const std::span<Pair> lower(pairs.begin(), first_higher), higher(first_higher, pairs.end());
  std::atomic<bool> accept_failed{false};
  if (lower.empty()) return connect_higher(higher, all_addresses, accept_failed, deadline);
  if (higher.empty()) return accept_lower(lower, -1, deadline);
  Fd stop(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!stop) return system_error(errno, "eventfd for the tcp endpoint");
  Result<> accepted;
  std::thread acceptor([&] {
    accepted = accept_lower(lower, stop.get(), deadline);
    accept_failed = !accepted;
  });
  const Result<> connected = connect_higher(higher, all_addresses, accept_failed, deadline);
  if (!connected) ::eventfd_write(stop.get(), 1);
  acceptor.join();
  // Stopped by us: the cause is what the connecting side found.
  if (!connected && (accepted || accepted.error().code == twohopAborted)) return connected;
  return accepted ? connected : accepted;
}

Result<> TcpEndpoint::open_connections(std::vector<Pair> pairs) {
  out_connection_.resize(out_.size());
  in_place_.resize(in_.size());
  for (Pair& p : pairs) {
    Connection& c = connections_.emplace_back(std::move(p.fd), p.peer, p.channel, p.address, p.out, p.in, &counters_);
    for (OutLink* l : p.out) out_connection_[static_cast<size_t>(l - out_.data())] = &c;
    for (size_t i = 0; i < p.in.size(); ++i) in_place_[static_cast<size_t>(p.in[i] - in_.data())] = {&c, i};
    epoll_event event{};
    event.events = c.epoll_interest = EPOLLIN;
    event.data.ptr = &c;
    if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, c.fd(), &event) != 0)
      return system_error(errno, "cannot await input of {}", c.name());
  }
  dirty_.reserve(connections_.size());
  events_.resize(connections_.size());
  return {};
}

Result<> TcpEndpoint::connect(std::vector<OutLink> out, std::vector<InLink> in, std::span<const Bytes> all_addresses,
                              Deadline deadline) {
  TWOHOP_CHECK(acceptor_, "connect() is called twice at rank {}", rank_);
  out_ = std::move(out);
  in_ = std::move(in);
  std::vector<Pair> pairs = make_pairs();
  for (Pair& p : pairs) {
    auto address = parse_address(all_addresses, p.peer);
    if (!address) return die(address.error());
    p.address = address->to_string();
  }
  if (auto r = connect_pairs(pairs, all_addresses, deadline); !r) return die(r.error());
  acceptor_.reset();
  if (auto r = open_connections(std::move(pairs)); !r) return die(r.error());
  log_debug("rank {}: tcp endpoint with {} connections, {} out and {} in links", rank_, connections_.size(),
            out_.size(), in_.size());
  return {};
}

}  // namespace tcp

Result<std::unique_ptr<Endpoint>> make_tcp_endpoint(int rank, const std::string& ifname, const Secret& secret) {
  auto interface = choose_interface(ifname);
  if (!interface) return interface.error();
  auto listener = listen_on(*interface);
  if (!listener) return listener.error();
  auto address = local_address(listener->get());
  if (!address) return address.error();
  Fd epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) return system_error(errno, "epoll_create1 for the tcp endpoint");
  return std::unique_ptr<Endpoint>(
      std::make_unique<tcp::TcpEndpoint>(rank, secret, *address, std::move(*listener), std::move(epoll)));
}

}  // namespace twohop
