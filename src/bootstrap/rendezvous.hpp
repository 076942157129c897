// How do ranks that only share a unique id find each other? The root service's side and the ranks' side.
//
// Each rank connects to the root, proves itself and says who it is and where it listens. When all are in, the root
// tells each rank where its parent in the control tree listens. What goes wrong is told to every rank that waits.
#pragma once

#include <string>

#include "base/handshake.hpp"
#include "bootstrap/unique_id.hpp"

namespace twohop {

constexpr int kTreeFanOut = 4;
inline int tree_parent(int rank) {
  return rank == 0 ? -1 : (rank - 1) / kTreeFanOut;
}

/// Serves one communicator's ranks; returns when all have been told the outcome, at the deadline, or when stop_fd
/// becomes readable.
void serve_rendezvous(Fd listener, const Secret& secret, Deadline deadline, int stop_fd);

/// What a rank knows after the rendezvous.
struct Introduction {
  Fd listener;           // where this rank's children connect
  SocketAddress parent;  // rank 0 has none
  std::string parent_identity;
};
/// Blocks until all ranks have come. `ifname` is TWOHOP_SOCKET_IFNAME; without one the listener is on the address that
/// reaches the root.
Result<Introduction> introduce(const UniqueIdContent& id, int rank, int nranks, const std::string& ifname,
                               Deadline deadline);

/// Connects and proves; tries again when the other end drops the connection, `tries` times at most (0: until the
/// deadline). Once refused for its proof, that is the error, whatever ends the tries.
Result<Fd> connect_proved(const SocketAddress& address, const Secret& secret, Purpose purpose,
                          std::span<const std::byte> hello, int tries, Deadline deadline);

}  // namespace twohop
