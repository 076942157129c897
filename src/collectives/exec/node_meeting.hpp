// NodeMeeting: all ranks of a node come to the same point between calls, each says whether it agrees, and all learn
// whether all did. For what the ranks of a node must do together and cannot do in the init.
//
// A rank's word, in its control page: number << 32 | topic of the meeting before << 16 | topic. Nobody can be more than
// one meeting ahead, so what a rank said at this one is still there.
#pragma once

#include <functional>
#include <optional>

#include "base/socket.hpp"
#include "collectives/exec/node_group.hpp"

namespace twohop {

class NodeMeeting {
 public:
  struct Ranks {
    NodeGroup* node = nullptr;
    std::vector<int> ranks;  // of the node, ascending
    double timeout_s = 600;
    std::function<std::optional<Error>()> failure;  // why it is of no use to wait any longer
  };
  explicit NodeMeeting(Ranks ranks) : r_(std::move(ranks)) {}

  /// What the meeting is about: ranks that come with different ones do not agree.
  struct Topic {
    uint8_t kind = 0;     // 0..3
    uint16_t detail = 0;  // 0..8191
  };
  /// Blocks until all are here. The first rank that does not agree, or has come for something else; -1: all agree.
  /// Errors: a rank does not come in time (scope: communicator), or the communicator fails.
  Result<int> meet(Topic topic, bool agree);

 private:
  std::optional<uint16_t> said(int local) const;
  Result<> wait_for(int local, Deadline deadline) const;

  Ranks r_;
  uint32_t number_ = 0;
};

}  // namespace twohop
