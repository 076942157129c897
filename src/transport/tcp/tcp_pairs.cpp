// How ranks that share links get a socket between them: the lower rank connects to the higher, both prove the secret.
// No payload moves here.
#include "transport/tcp/tcp_pairs.hpp"

#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <thread>

#include "base/check.hpp"
#include "base/log.hpp"
#include "transport/tcp/tcp_wire.hpp"

namespace twohop::tcp {
namespace {

constexpr size_t kMaxNamedPairs = 8;  // in a message

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

/// A descriptor that is readable when one of these is; negative ones do not count.
Result<Fd> any_of(std::initializer_list<int> fds) {
  Fd any(::epoll_create1(EPOLL_CLOEXEC));
  for (int fd : fds) {
    epoll_event event{};
    event.events = EPOLLIN;
    if (any && fd >= 0 && ::epoll_ctl(any.get(), EPOLL_CTL_ADD, fd, &event) != 0) any.reset();
  }
  if (any) return Result<Fd>(std::move(any));
  return system_error(errno, "epoll for the data connections");
}

}  // namespace

PairConnector::PairConnector(int rank, const Secret& secret, const SocketAddress& address, Fd listener)
    : rank_(rank), secret_(secret), listen_address_(address), acceptor_(std::move(listener), secret, Purpose::kData) {}

Result<std::unique_ptr<PairConnector>> PairConnector::create(int rank, const std::string& ifname,
                                                             const Secret& secret) {
  auto interface = choose_interface(ifname);
  if (!interface) return interface.error();
  auto listener = listen_on(interface->address);
  if (!listener) return listener.error();
  auto address = local_address(listener->get());
  if (!address) return address.error();
  return std::make_unique<PairConnector>(rank, secret, *address, std::move(*listener));
}

Bytes PairConnector::address() const {
  const auto bytes = bytes_of(listen_address_);
  return Bytes(bytes.begin(), bytes.end());
}

std::vector<Pair> group_links(int rank, std::span<OutLink> out, std::span<InLink> in, bool by_channel) {
  std::map<std::pair<int, uint16_t>, Pair> by_key;
  auto pair_of = [&](int peer, uint16_t channel) -> Pair& {
    if (!by_channel) channel = 0;
    Pair& p = by_key[{peer, channel}];
    p.peer = peer;
    p.channel = channel;
    return p;
  };
  for (OutLink& l : out) {
    TWOHOP_CHECK(l.id.src == rank && l.id.dst != rank, "out link {} to {} at rank {}", l.id.src, l.id.dst, rank);
    pair_of(l.id.dst, l.id.channel).out.push_back(&l);
  }
  for (InLink& l : in) {
    TWOHOP_CHECK(l.id.dst == rank && l.id.src != rank, "in link {} to {} at rank {}", l.id.src, l.id.dst, rank);
    pair_of(l.id.src, l.id.channel).in.push_back(&l);
  }
  std::vector<Pair> pairs;
  for (auto& [key, p] : by_key) pairs.push_back(std::move(p));
  return pairs;
}

Result<> PairConnector::connect_higher(std::span<Pair> pairs, std::span<const Bytes> all_addresses, int stop_fd,
                                       Deadline deadline) {
  for (Pair& p : pairs) {
    auto address = parse_address(all_addresses, p.peer);
    if (!address) return address.error();
    auto fd = connect_to(*address, deadline, stop_fd);
    if (!fd) return about_peer(fd.error(), p);
    const Hello hello{kWireVersion, 0, htole16(p.channel), static_cast<int32_t>(htole32(rank_)),
                      static_cast<int32_t>(htole32(p.peer))};
    if (auto r = handshake(fd->get(), secret_, Purpose::kData, bytes_of(hello), deadline); !r)
      return about_peer(r.error(), p);
    if (auto r = agree_(p, fd->get(), deadline); !r) return about_peer(r.error(), p);
    log_debug("rank {}: connected to rank {} at {}, channel {}", rank_, p.peer, address->to_string(), p.channel);
    p.fd = std::move(*fd);
  }
  return {};
}

/// The pair that an authenticated hello belongs to.
Result<Pair*> PairConnector::identify(std::span<Pair> pairs, const Bytes& bytes) const {
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

Result<> PairConnector::accept_lower(std::span<Pair> pairs, int stop_fd, Deadline deadline) {
  for (size_t missing = pairs.size(); missing > 0; --missing) {
    auto peer = acceptor_.next(deadline, stop_fd);
    if (!peer) return peer.error().code == twohopTimeout ? missing_peers(pairs) : peer.error();
    auto pair = identify(pairs, peer->hello);
    if (!pair) return pair.error();
    Pair& p = **pair;
    if (auto r = agree_(p, peer->fd.get(), deadline); !r) return about_peer(r.error(), p);
    log_debug("rank {}: accepted rank {}, channel {}", rank_, p.peer, p.channel);
    p.fd = std::move(peer->fd);
  }
  return {};
}

/// Connects and accepts at once: were they in turn, a ring of ranks would come up one after the other. What fails first
/// stops the other.
Result<> PairConnector::connect_both(std::span<Pair> lower, std::span<Pair> higher,
                                     std::span<const Bytes> all_addresses, int stop_fd, Deadline deadline) {
  Fd failed(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!failed) return system_error(errno, "eventfd for the data connections");
  auto stop = any_of({failed.get(), stop_fd});
  if (!stop) return stop.error();
  Result<> accepted;
  std::thread acceptor([&] {
    accepted = accept_lower(lower, stop->get(), deadline);
    if (!accepted) ::eventfd_write(failed.get(), 1);
  });
  const Result<> connected = connect_higher(higher, all_addresses, stop->get(), deadline);
  if (!connected) ::eventfd_write(failed.get(), 1);
  acceptor.join();
  const bool only_stopped = !accepted && accepted.error().code == twohopAborted;
  return accepted || (only_stopped && !connected) ? connected : accepted;
}

Result<> PairConnector::connect(std::span<Pair> pairs, std::span<const Bytes> all_addresses, const Agree& agree,
                                Deadline deadline, int stop_fd) {
  agree_ = agree;
  for (Pair& p : pairs) {
    auto address = parse_address(all_addresses, p.peer);
    if (!address) return address.error();
    p.address = address->to_string();
  }
  const auto first_higher = std::partition_point(pairs.begin(), pairs.end(),  // they are sorted by peer
                                                 [&](const Pair& p) { return p.peer < rank_; });
  const std::span<Pair> lower(pairs.begin(), first_higher), higher(first_higher, pairs.end());
  if (lower.empty()) return connect_higher(higher, all_addresses, stop_fd, deadline);
  if (higher.empty()) return accept_lower(lower, stop_fd, deadline);
  return connect_both(lower, higher, all_addresses, stop_fd, deadline);
}

}  // namespace twohop::tcp
