// Calls that are run together, by one thread, when their turn has come: what GroupEnd makes, and what streams are
// given.
#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <vector>

#include "api/comm_handle.hpp"
#include "collectives/exec/run.hpp"

namespace twohop {

/// Held while tickets are taken and the bundles that hold them are queued. It makes the two one step, so that all
/// queues (of communicators and of streams) see the calls in one order and no two of them wait for each other.
std::mutex& issue_mutex();

class Bundle {
 public:
  void add(twohopComm& comm, const Call& call);

  /// After the last add(), before issue(): what allocates.
  void prepare();
  /// Takes a place in the order of each communicator, with issue_mutex() held. Afterwards run() must be called.
  void issue();
  /// Waits for its turn with every communicator, runs all calls, and passes the turns on. The first error.
  Result<> run();
  /// Where a thread of ours that runs it belongs: as its first communicator says.
  const NumaBinding& binding() const { return members_.front().comm->communicator->binding(); }

 private:
  struct Member {
    std::shared_ptr<twohopComm> comm;
    std::vector<Call> calls;
    uint32_t ticket = 0;
  };
  Result<> run_in_turn();

  std::vector<Member> members_;
  std::vector<Work> work_;  // views of members_
};

/// Of one bundle or more. Lists, since moving a bundle from one to another cannot fail.
using Bundles = std::list<Bundle>;

/// Runs one blocking call in its turn. Allocates nothing.
Result<> run_blocking(twohopComm& comm, const Call& call);

}  // namespace twohop
