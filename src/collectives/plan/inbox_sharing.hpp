// Which links of a channel share an inbox?
//
// Links from one rank to another that no algorithm uses together. A call runs one algorithm, so links that share an
// inbox are never used in the same call; and since an inbox has a half for each parity of calls, two of them can meet
// in a half only when calls are two apart. Before its first put of a call the sender therefore waits until all that it
// put into the inbox before the last call has been released, over whichever link. The checker's links share inboxes by
// the same function.
//
// Only links between the same two ranks: the sender then knows of all puts and releases by itself.
#pragma once

#include <vector>

#include "collectives/plan/schedule.hpp"

namespace twohop {

struct SharingEnd {
  LinkEnd end;
  int inbox = 0;  // number among the inboxes for puts from the one rank to the other
  bool operator==(const SharingEnd&) const = default;
};

/// `by_algorithm`: the link ends of one rank, all outgoing or all incoming, that each algorithm uses. In the order of
/// peer, inbox and tag. Both ends of a link come to the same number.
std::vector<SharingEnd> share_inboxes(const std::vector<std::vector<LinkEnd>>& by_algorithm);

}  // namespace twohop
