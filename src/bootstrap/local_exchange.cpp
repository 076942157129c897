// How do the ranks of one host swap file descriptors?
//
// Of each pair the higher rank connects. One thread serves all outgoing connections from one poll, the calling thread
// accepts; so nobody waits for a rank because another one does.
#include "bootstrap/local_exchange.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "bootstrap/fd_transfer.hpp"
#include "bootstrap/service_thread.hpp"
#include "bootstrap/wire.hpp"

namespace twohop {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds kPatience{5};
constexpr size_t kMaxNameBytes = 100;

struct UnixAddress {
  sockaddr_un address{};
  socklen_t length = 0;
};

UnixAddress abstract_address(const std::string& name) {
  UnixAddress a;
  a.address.sun_family = AF_UNIX;
  std::memcpy(a.address.sun_path + 1, name.data(), name.size());  // after a zero byte: no file
  a.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return a;
}

Result<Fd> unix_socket() {
  Fd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) return system_error(errno, "cannot open a Unix socket");
  return Result<Fd>(std::move(fd));
}

Result<Fd> connect_to_name(const std::string& name) {
  if (name.empty() || name.size() > kMaxNameBytes)
    return make_error(twohopInternalError, "its socket name has {} bytes", name.size());
  auto fd = unix_socket();
  if (!fd) return fd;
  const UnixAddress a = abstract_address(name);
  if (connect(fd->get(), reinterpret_cast<const sockaddr*>(&a.address), a.length) == 0) return fd;
  if (errno == ECONNREFUSED)
    return make_error(
        twohopRemoteError,
        "its abstract Unix socket does not exist here: it is in another network namespace (container), or "
        "has ended");
  return system_error(errno, "cannot connect to its abstract Unix socket");
}

/// One candidate's connection, from the proof (if we connected) to the descriptors.
struct Swap {
  LocalPeer* result;
  Fd socket;
  std::optional<Prover> prover;
  bool over = false;

  void fail(const Error& why) {
    result->failure = why.message;
    over = true;
  }
  Result<bool> step(std::span<const int> fds);
};

/// Sends ours once the other end is known to be a rank of ours, then awaits theirs; true when it has them.
Result<bool> Swap::step(std::span<const int> fds) {
  if (prover) {
    if (auto proved = prover->step(); !proved || !*proved) return proved;
    prover.reset();
    if (auto sent = send_fds(socket.get(), fds); !sent) return sent.error();
  }
  auto theirs = receive_fds(socket.get());
  if (!theirs) return theirs.error();
  if (!*theirs) return false;
  result->fds = std::move(**theirs);
  return true;
}

/// Serves all swaps until each is over, at the latest at the deadline.
void finish(std::vector<Swap>& swaps, std::span<const int> fds, Deadline deadline) {
  for (;;) {
    std::vector<pollfd> polled;
    for (Swap& s : swaps) {
      if (s.over) continue;
      auto done = s.step(fds);
      if (!done) s.fail(done.error());
      s.over = s.over || *done;
      if (!s.over) polled.push_back({s.socket.get(), s.prover ? s.prover->wants() : short{POLLIN}, 0});
    }
    if (polled.empty()) return;
    if (Clock::now() >= deadline) break;
    (void)poll(polled.data(), polled.size(), poll_timeout_ms(deadline));
  }
  for (Swap& s : swaps)
    if (!s.over) s.fail(make_error(twohopTimeout, "it did not answer within {} s", kPatience.count()));
}

Bytes hello_of(int rank) {
  Writer w;
  w.u8(kBootstrapVersion);
  w.i32(rank);
  return w.take();
}

int rank_of(std::span<const std::byte> hello) {
  Reader r(hello);
  const bool same_version = r.u8() == kBootstrapVersion;
  const int rank = r.i32();
  return same_version && r.complete() ? rank : -1;
}

void connect_all(const std::vector<std::pair<LocalPeer*, std::string>>& targets, int my_rank, std::span<const int> fds,
                 const Secret& secret, Deadline deadline) {
  std::vector<Swap> swaps;
  for (const auto& [result, name] : targets) {
    auto fd = connect_to_name(name);
    auto allowed = fd ? check_same_user(fd->get()) : Result<>(fd.error());
    if (!allowed) {
      result->failure = allowed.error().message;
      continue;
    }
    Prover prover(fd->get(), secret, Purpose::kLocal, hello_of(my_rank));
    swaps.push_back({result, std::move(*fd), std::move(prover)});
  }
  finish(swaps, fds, deadline);
}

/// Takes one proved peer in, if it is one that is awaited.
void admit(Acceptor::Peer peer, std::vector<LocalPeer*>& awaited, std::vector<Swap>& swaps, std::span<const int> fds) {
  const int rank = rank_of(peer.hello);
  const auto at = std::find_if(awaited.begin(), awaited.end(), [&](const LocalPeer* p) { return p->rank == rank; });
  if (at == awaited.end()) return;
  Swap& swap = swaps.emplace_back(Swap{*at, std::move(peer.fd), std::nullopt});
  awaited.erase(at);
  auto allowed = check_same_user(swap.socket.get());
  if (allowed) allowed = send_fds(swap.socket.get(), fds);
  if (!allowed) swap.fail(allowed.error());
}

void accept_all(Acceptor& acceptor, std::vector<LocalPeer*> awaited, std::span<const int> fds, Deadline deadline) {
  std::vector<Swap> swaps;
  std::string why = fmt::format("it did not connect within {} s", kPatience.count());
  while (!awaited.empty()) {
    auto peer = acceptor.next(deadline);
    if (peer) {
      admit(std::move(*peer), awaited, swaps, fds);
    } else {
      if (peer.error().code != twohopTimeout) why = peer.error().message;
      break;
    }
  }
  for (LocalPeer* late : awaited) late->failure = why;
  finish(swaps, fds, std::max(deadline, Clock::now() + std::chrono::milliseconds(200)));
}

/// Whoever is the highest rank awaits nobody: what the others tried its listener with would stay there until it is
/// full.
void drop_probes(int listener) {
  for (;;)
    if (const Fd probe(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC)); !probe) return;
}

}  // namespace

Result<LocalExchange> LocalExchange::create() {
  auto fd = unix_socket();
  if (!fd) return fd.error();
  LocalExchange exchange;
  exchange.name_ = "twohop-";
  for (size_t i = 0; const unsigned char byte : random_secret())
    if (i++ < 16) exchange.name_ += fmt::format("{:02x}", byte);
  const UnixAddress a = abstract_address(exchange.name_);
  if (bind(fd->get(), reinterpret_cast<const sockaddr*>(&a.address), a.length) != 0 || listen(fd->get(), 1024) != 0)
    return system_error(errno, "cannot listen on an abstract Unix socket");
  exchange.listener_ = std::move(*fd);
  return Result<LocalExchange>(std::move(exchange));
}

Result<std::vector<LocalPeer>> LocalExchange::exchange(int my_rank, std::span<const Candidate> candidates,
                                                       std::span<const int> fds, const Secret& secret,
                                                       Deadline deadline) {
  deadline = std::min(deadline, Clock::now() + kPatience);
  std::vector<LocalPeer> peers(candidates.size());
  std::vector<std::pair<LocalPeer*, std::string>> lower;
  std::vector<LocalPeer*> higher;
  for (size_t i = 0; i < candidates.size(); i++) {
    peers[i].rank = candidates[i].rank;
    if (candidates[i].rank < my_rank)
      lower.emplace_back(&peers[i], candidates[i].name);
    else if (auto probe = connect_to_name(candidates[i].name); probe)  // if we can't reach it, it can't reach us
      higher.push_back(&peers[i]);
    else
      peers[i].failure = probe.error().message;
  }
  Fd listener(fcntl(listener_.get(), F_DUPFD_CLOEXEC, 0));
  if (!listener) return system_error(errno, "cannot duplicate a descriptor");
  Acceptor acceptor(std::move(listener), secret, Purpose::kLocal);
  auto connecting =
      ServiceThread::start("twohop-local", [&](int) { connect_all(lower, my_rank, fds, secret, deadline); });
  if (!connecting) return connecting.error();
  const bool highest = higher.empty();
  accept_all(acceptor, std::move(higher), fds, deadline);
  connecting->reset();  // joins
  if (highest) drop_probes(listener_.get());
  return Result<std::vector<LocalPeer>>(std::move(peers));
}

}  // namespace twohop
