// Joining and leaving a job: the parts of twohopCommInit* and twohopCommDestroy that groups put off to their end.
#pragma once

#include <optional>
#include <vector>

#include "api/comm_handle.hpp"

namespace twohop {

/// A checked init: what is left is to join.
struct JoinRequest {
  twohopComm_t* comm = nullptr;  // where the handle goes
  twohopUniqueId id{};
  int nranks = 0, rank = 0;
  CommConfig config;
  Result<std::optional<int>> gpu = std::optional<int>();  // of the thread that asked: groups join on others
};

/// Blocks until all ranks have joined.
Result<> join(const JoinRequest& request);
/// Joins them all at once, each on a thread of its own. The first error.
Result<> join_all(const std::vector<JoinRequest>& requests);

/// Waits for the pending calls of `comm`, then frees what it holds.
Result<> destroy(twohopComm_t comm);

}  // namespace twohop
