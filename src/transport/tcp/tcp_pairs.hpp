// PairConnector: the authenticated sockets between ranks that share links. The tcp transport moves its data over them;
// the verbs transport sets its queue pairs up over them.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "transport/endpoint.hpp"

namespace twohop::tcp {

/// The links between this rank and `peer`, of one channel or of all, and, once connected, their socket.
struct Pair {
  int peer = -1;
  uint16_t channel = 0;
  std::vector<OutLink*> out;
  std::vector<InLink*> in;
  std::string address;
  Fd fd;
};

/// The links grouped by peer, and by channel if asked for; sorted by peer.
std::vector<Pair> group_links(int rank, std::span<OutLink> out, std::span<InLink> in, bool by_channel);

class PairConnector {
 public:
  /// What both ends do with a new socket; an error ends connect().
  using Agree = std::function<Result<>(const Pair&, int fd, Deadline)>;

  /// Listens on the interface chosen by `ifname` (choose_interface).
  static Result<std::unique_ptr<PairConnector>> create(int rank, const std::string& ifname, const Secret& secret);
  PairConnector(int rank, const Secret& secret, const SocketAddress& address, Fd listener);

  /// What other ranks need to connect to this one.
  Bytes address() const;
  /// Gives every pair its socket; both ends do it at once. `agree` may run in two threads at the same time.
  /// twohopAborted when stop_fd becomes readable.
  Result<> connect(std::span<Pair> pairs, std::span<const Bytes> all_addresses, const Agree& agree, Deadline deadline,
                   int stop_fd = -1);

 private:
  Result<> connect_higher(std::span<Pair> pairs, std::span<const Bytes> all_addresses, int stop_fd, Deadline deadline);
  Result<> accept_lower(std::span<Pair> pairs, int stop_fd, Deadline deadline);
  Result<> connect_both(std::span<Pair> lower, std::span<Pair> higher, std::span<const Bytes> all_addresses,
                        int stop_fd, Deadline deadline);
  Result<Pair*> identify(std::span<Pair> pairs, const Bytes& hello) const;

  int rank_;
  Secret secret_;
  SocketAddress listen_address_;
  Acceptor acceptor_;
  Agree agree_;
};

}  // namespace twohop::tcp
