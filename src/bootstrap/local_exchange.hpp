// Hands file descriptors to the other ranks of this host, over abstract Unix sockets.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/handshake.hpp"
#include "base/result.hpp"

namespace twohop {

/// What one candidate gave us, or why it did not work (then the two ranks are separate nodes).
struct LocalPeer {
  int rank = -1;
  std::vector<Fd> fds;  // empty when it failed
  std::string failure;
};

/// The text that tells hosts apart: `override_id` (TWOHOP_HOSTID) if set, else host name, boot id, and the pid, ipc,
/// network and user namespaces that shared memory hand-over needs to have in common.
std::string host_identity(const std::string& override_id);

/// A listener with a fresh random abstract name; name() travels to the other ranks over the control channel, then every
/// rank calls exchange() with the names of its candidates. Peers must be of the same user and hold the secret.
class LocalExchange {
 public:
  static Result<LocalExchange> create();
  const std::string& name() const { return name_; }

  struct Candidate {
    int rank;
    std::string name;
  };
  /// Sends `fds` to every candidate and takes theirs; works inside one process too. An individual failure (another
  /// network namespace, a refused connection) is in LocalPeer::failure, after at most a few seconds, not an error. It
  /// may be seen by one of the two ranks only: let the ranks compare before they rely on it. At most 16 fds.
  Result<std::vector<LocalPeer>> exchange(int my_rank, std::span<const Candidate> candidates, std::span<const int> fds,
                                          const Secret& secret, Deadline deadline);

 private:
  std::string name_;
  Fd listener_;
};

}  // namespace twohop
