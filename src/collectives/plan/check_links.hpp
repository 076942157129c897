// The links between nodes, as the checker sees them: what was put, what arrived, what was released, and who knows it.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "collectives/plan/vector_clock.hpp"

namespace twohop {

/// Counts run over all calls, as in the transport. The reads of sources are events of thread `tx` of the sender's node,
/// the writes of the inbox of thread `rx` of the receiver's node. Links share inboxes as they do when they are executed
/// (inbox_sharing.hpp).
struct Link {
  int src = 0, dst = 0;
  int nodes_ahead = 0;            // by symmetry: dst stands for the rank of its index so many nodes after src's
  int inbox = 0;                  // of all the cluster's
  std::vector<int> sharing = {};  // the other links of the inbox
  uint32_t tx = 0, rx = 0;
  Clock tx_clock = {}, rx_clock = {};
  ClockLog sent = {}, arrived = {}, released = {};       // by put
  std::vector<int64_t> posted_at = {}, arrived_at = {};  // by call: puts before it, seen from sender and receiver
};

class Links {
 public:
  /// `link`: what a new one is.
  void add(int src, int dst, int tag, const Link& link) {
    const int id = static_cast<int>(links_.size());
    if (ids_.try_emplace({src, dst, tag}, id).second) links_.push_back(link);
  }
  /// -1 when there is none.
  int find(int src, int dst, int tag) const {
    const auto it = ids_.find({src, dst, tag});
    return it == ids_.end() ? -1 : it->second;
  }
  Link& operator[](int id) { return links_[id]; }
  const Link& operator[](int id) const { return links_[id]; }
  size_t size() const { return links_.size(); }
  auto begin() { return links_.begin(); }
  auto end() { return links_.end(); }
  auto begin() const { return links_.begin(); }
  auto end() const { return links_.end(); }

 private:
  std::vector<Link> links_;
  std::map<std::tuple<int, int, int>, int> ids_;
};

}  // namespace twohop
