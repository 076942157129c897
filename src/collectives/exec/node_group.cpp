// See node_group.hpp.
#include "collectives/exec/node_group.hpp"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace twohop {

size_t NodeMembers::index_of(int rank) const {
  return static_cast<size_t>(std::find(ranks.begin(), ranks.end(), rank) - ranks.begin());
}

std::vector<LocalExchange::Candidate> NodeMembers::others() const {
  std::vector<LocalExchange::Candidate> found;
  for (size_t i = 0; i < ranks.size(); ++i)
    if (ranks[i] != me) found.push_back({ranks[i], exchanges[i]});
  return found;
}

Result<std::unique_ptr<NodeGroup>> NodeGroup::create(const NodeMembers& members, const WindowMap& map,
                                                     LocalExchange& exchange, const Secret& secret, Deadline deadline,
                                                     std::vector<LocalPeer>* unreachable) {
  auto group = std::make_unique<NodeGroup>();
  group->map_ = map;
  group->members_.resize(members.ranks.size());
  for (size_t i = 0; i < members.ranks.size(); ++i) group->members_[i].rank = members.ranks[i];
  const size_t me = members.index_of(members.me);
  group->me_ = static_cast<int>(me);
  Member& mine = group->members_[me];
  auto own = SharedMemory::create(map.total(members.inboxes[me]));
  if (!own) return own.error();
  mine.window = std::move(*own);
  mine.doorbell = Fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!mine.doorbell) return system_error(errno, "eventfd for rank {}", mine.rank);
  const int fds[] = {mine.window.fd(), mine.doorbell.get()};
  auto peers = exchange.exchange(members.me, members.others(), fds, secret, deadline);
  if (!peers) return peers.error();
  for (LocalPeer& peer : *peers) {
    const size_t i = members.index_of(peer.rank);
    if (peer.fds.size() == 2) {
      auto window = SharedMemory::map(std::move(peer.fds[0]), map.total(members.inboxes[i]));
      if (!window) return window.error();
      group->members_[i].window = std::move(*window);
      group->members_[i].doorbell = std::move(peer.fds[1]);
    } else {
      unreachable->push_back(std::move(peer));
    }
  }
  for (Member& m : group->members_) group->bases_.push_back(m.window.bytes().data());
  group->addresses_ = {group->me_, map, group->bases_, group->bases_, {}};
  return group;
}

void NodeGroup::wake_sleepers() {
  // Pairs with announce_sleep(): either we see the flag, or the sleeper's last look sees what we wrote.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  for (int i = 0; i < size(); ++i) {
    if (i == me_) continue;
    auto& sleeping = control(i).sleeping.value;
    if (sleeping.load(std::memory_order_relaxed) == 0 || sleeping.exchange(0) == 0) continue;
    const uint64_t one = 1;
    (void)!write(members_[i].doorbell.get(), &one, sizeof one);
  }
}

void NodeGroup::wake_self() {
  const uint64_t one = 1;
  (void)!write(doorbell(), &one, sizeof one);
}

void NodeGroup::announce_sleep() {
  control(me_).sleeping.value.store(1, std::memory_order_seq_cst);
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

void NodeGroup::end_sleep() {
  control(me_).sleeping.value.store(0, std::memory_order_relaxed);
  uint64_t ignored = 0;
  (void)!read(doorbell(), &ignored, sizeof ignored);
}

}  // namespace twohop
