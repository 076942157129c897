// How large are a rank's windows and inboxes, and how do its links get connected?
#include <poll.h>

#include <algorithm>
#include <utility>

#include "collectives/exec/communicator_init.hpp"

namespace twohop {

uint64_t CommunicatorInit::largest_chunk() const {
  // Many channels have as many chunks under way anyway, and doorbells have their company: with large ones too they
  // would only hold memory. What all channels together have in one slot each:
  constexpr uint64_t kOneSlotOfAllChannels = 1 << 20, kSmallest = 16 << 10;
  const uint64_t shared = kOneSlotOfAllChannels / static_cast<uint64_t>(config_.nchannels);
  return std::min(static_cast<uint64_t>(options_.chunk_bytes), std::max(shared, kSmallest));
}

/// As large as the largest chunks need, and no larger than the buffer: all of it may be pinned for a NIC.
WindowMap CommunicatorInit::window_map() const {
  constexpr Collective kAll[] = {Collective::kAllReduce, Collective::kReduceScatter, Collective::kAllGather,
                                 Collective::kBroadcast};
  const Cluster& cluster = comm_->cluster_;
  WindowMap map;
  map.channels = static_cast<size_t>(config_.nchannels);
  map.lanes = static_cast<size_t>(max_lanes(cluster));
  uint64_t slots = 1, put_slots = 1;
  for (const Algorithm* a : comm_->tuning_.reachable(cluster))
    for (const Collective c : kAll) {
      if (!a->supports(cluster, c)) continue;
      const Frame f = a->frame({&cluster, c, 0, {}});
      slots = std::max<uint64_t>(slots, uint64_t(f.areas) * f.slots);
      put_slots = std::max<uint64_t>(put_slots, uint64_t(f.put_slots) * f.chunks_per_put);
    }
  // Half the buffer for each parity of calls; an inbox at most a quarter of that.
  const auto half = static_cast<uint64_t>(options_.buff_bytes) / 2;
  const uint64_t chunk = largest_chunk();
  map.window_bytes = WindowMap::pages(std::clamp(half, slots * kChunkAlign, slots * chunk));
  map.inbox_bytes = WindowMap::pages(std::clamp(half / 4, put_slots * kChunkAlign, put_slots * chunk));
  return map;
}

/// A step that waits for connections of other ranks. It ends when one of them is lost or gives up; a connection that
/// breaks is then not the cause, which comes over the control channel, a little later perhaps.
Result<> CommunicatorInit::while_listening(Result<> (CommunicatorInit::*step)()) {
  constexpr std::chrono::milliseconds kGraceTime{500};
  if (comm_->cluster_.nnodes() == 1) return (this->*step)();
  auto alarm = comm_->control_->set_alarm();
  if (!alarm) return alarm.error();
  alarm_fd_ = (*alarm)->fd();
  auto done = (this->*step)();
  const int fd = std::exchange(alarm_fd_, -1);
  if (done) return done;
  if (done.error().scope == Scope::kPeer)
    (void)wait_for_fd(fd, POLLIN, std::min(deadline_, std::chrono::steady_clock::now() + kGraceTime));
  const auto cause = (*alarm)->failure();
  return cause ? Result<>(*cause) : done;
}

Result<> CommunicatorInit::connect_links() {
  if (comm_->cluster_.nnodes() == 1) {
    comm_->endpoint_.reset();
    return {};
  }
  NodeGroup& node = *comm_->node_;
  const LinkTable& mine = tables_[node.me()];
  // Windows and inboxes: all that puts are sent from and arrive in.
  std::byte* first = node.window(node.me(), 0);
  const auto bytes = static_cast<size_t>(node.inbox(node.me(), mine.in.size()) - first);
  if (auto r = comm_->endpoint_->register_memory({first, bytes}); !r) return r;
  return connect_all(
      *comm_->endpoint_, mine, [&](size_t i) { return node.inbox(node.me(), i); }, node.map().inbox_bytes, addresses_);
}

Result<> CommunicatorInit::connect_all(Endpoint& endpoint, const LinkTable& links,
                                       const std::function<std::byte*(size_t)>& inbox_of, uint64_t half_inbox_bytes,
                                       std::span<const Bytes> addresses) {
  const size_t inbox_bytes = 2 * half_inbox_bytes;
  std::vector<OutLink> out;
  std::vector<InLink> in;
  // A link's slots are used by two calls at once at most, one in each half of its inbox.
  const auto max_in_flight = static_cast<uint32_t>(2 * Depths{}.put_slots);
  for (const LinkId& id : links.out)
    out.push_back({.id = id, .inbox_bytes = inbox_bytes, .max_in_flight = max_in_flight});
  for (size_t i = 0; i < links.in.size(); ++i) {
    InLink link;
    link.id = links.in[i];
    link.inbox = {inbox_of(i), inbox_bytes};
    link.max_in_flight = max_in_flight;
    in.push_back(link);
  }
  return endpoint.connect(std::move(out), std::move(in), addresses, deadline_, alarm_fd_);
}

}  // namespace twohop
