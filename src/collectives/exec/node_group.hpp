// NodeGroup: the ranks of one node, each with a window that all of them have mapped, and a doorbell to wake each other.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "base/socket.hpp"
#include "bootstrap/local_exchange.hpp"
#include "collectives/exec/node_addresses.hpp"
#include "collectives/exec/window_map.hpp"
#include "device/shared_memory.hpp"

namespace twohop {

/// The ranks of a node, and where to reach their hand-over sockets.
struct NodeMembers {
  int me = -1;                         // rank
  std::vector<int> ranks;              // ascending, `me` included
  std::vector<std::string> exchanges;  // LocalExchange names, in the same order
  std::vector<size_t> inboxes;         // number of those of each

  /// Pre: one of `ranks`.
  size_t index_of(int rank) const;
  /// All but `me`, for LocalExchange.
  std::vector<LocalExchange::Candidate> others() const;
};

class NodeGroup {
 public:
  /// Creates this rank's window and maps the others'. `unreachable` receives the ranks with which it did not work, and
  /// why; the group is then of no use and the caller tries again with a finer grouping.
  static Result<std::unique_ptr<NodeGroup>> create(const NodeMembers& members, const WindowMap& map,
                                                   LocalExchange& exchange, const Secret& secret, Deadline deadline,
                                                   std::vector<LocalPeer>* unreachable);

  int size() const { return static_cast<int>(members_.size()); }
  int me() const { return me_; }  // index among the node's ranks
  const WindowMap& map() const { return map_; }
  const NodeAddresses& addresses() const { return addresses_; }

  ControlPage& control(int local) { return *reinterpret_cast<ControlPage*>(base(local)); }
  std::atomic<uint64_t>& counter(int local, size_t channel, size_t lane) {
    return reinterpret_cast<SharedWord*>(base(local) + map_.counter(channel, lane))->value;
  }
  std::byte* window(int local, size_t channel) { return base(local) + map_.window(channel); }
  /// This rank's segment, which nobody has touched when the group is new.
  std::span<std::byte> own_memory() { return members_[me_].window.bytes(); }
  std::byte* inbox(int local, size_t number) { return base(local) + map_.inbox(number); }

  /// Wakes the ranks that sleep; call it after counters or notices were written. A fence and a few cached loads when
  /// nobody does.
  void wake_sleepers();
  /// Makes a sleep that has been announced, or the next one, end at once. Any thread.
  void wake_self();
  /// Announces that this rank is going to sleep on doorbell(), and takes that back.
  void announce_sleep();
  void end_sleep();
  int doorbell() const { return members_[me_].doorbell.get(); }

 private:
  struct Member {
    int rank = -1;
    SharedMemory window;
    Fd doorbell;  // an eventfd
  };
  std::byte* base(int local) { return bases_[local]; }

  int me_ = 0;
  WindowMap map_;
  std::vector<Member> members_;
  std::vector<std::byte*> bases_;
  NodeAddresses addresses_;
};

}  // namespace twohop
