// See gpu_node.hpp.
#include "collectives/exec/gpu/gpu_node.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace twohop {

/// Makes or maps the segments of one placement.
struct GpuNode::Maker {
  GpuRuntime& runtime;
  int device;
  const WindowMap& map;
  const GpuPlacement& placement;
  size_t locals;

  size_t window_bytes(size_t count) const { return segment_bytes(map, placement, locals, count); }
  size_t inbox_bytes(size_t count) const { return count * 2 * map.inbox_bytes; }
  bool inboxes_apart(size_t count) const { return placement.inboxes_on_gpu != placement.windows_on_gpu && count > 0; }

  Result<Segment> make(bool on_gpu, size_t bytes) const {
    Segment s;
    if (on_gpu) {
      auto made = runtime.make_segment(device, bytes);
      if (!made) {
        made.error().message = fmt::format(
            "{} bytes of windows for GPU calls (fewer TWOHOP_NCHANNELS and a smaller "
            "TWOHOP_BUFFSIZE need less memory): {}",
            bytes, made.error().message);
        return made.error();
      }
      s.gpu = std::move(*made);
      return Result<Segment>(std::move(s));
    }
    auto made = SharedMemory::create(bytes);
    if (!made) return made.error();
    return pinned(std::move(*made));
  }
  Result<Segment> map_fds(bool on_gpu, std::vector<Fd> fds, size_t bytes) const {
    Segment s;
    if (on_gpu) {
      auto mapped = runtime.map_segment(device, std::move(fds), bytes);
      if (!mapped) return mapped.error();
      s.gpu = std::move(*mapped);
      return Result<Segment>(std::move(s));
    }
    auto mapped = SharedMemory::map(std::move(fds[0]), bytes);
    if (!mapped) return mapped.error();
    return pinned(std::move(*mapped));
  }
  Result<Segment> pinned(SharedMemory memory) const {
    Segment s;
    s.host = std::move(memory);
    auto held = runtime.pin(device, s.host.bytes());
    if (!held) return held.error();
    s.pinned = std::move(*held);
    return Result<Segment>(std::move(s));
  }

  Result<Member> make_own(size_t count) const {
    Member m;
    auto windows = make(placement.windows_on_gpu, window_bytes(count));
    if (!windows) return windows.error();
    m.windows = std::move(*windows);
    if (!inboxes_apart(count)) return Result<Member>(std::move(m));
    auto inboxes = make(placement.inboxes_on_gpu, inbox_bytes(count));
    if (!inboxes) return inboxes.error();
    m.inboxes = std::move(*inboxes);
    return Result<Member>(std::move(m));
  }
  /// What travels: the descriptors of the windows, then those of the inboxes.
  static Result<std::vector<Fd>> fds_of(const Segment& s) {
    if (s.gpu) return s.gpu->export_fds();
    std::vector<Fd> fds;
    fds.emplace_back(::dup(s.host.fd()));
    if (!fds.back()) return system_error(errno, "cannot hand over the host memory of GPU calls");
    return Result<std::vector<Fd>>(std::move(fds));
  }
  static Result<std::vector<Fd>> export_own(const Member& m, bool inboxes_apart) {
    auto fds = fds_of(m.windows);
    if (!fds || !inboxes_apart) return fds;
    auto more = fds_of(m.inboxes);
    if (!more) return more.error();
    for (Fd& fd : *more) fds->push_back(std::move(fd));
    return fds;
  }
  Result<Member> map_peer(std::vector<Fd> fds, size_t count) const {
    const bool apart = inboxes_apart(count);
    const size_t least = apart ? 2 : 1;
    if (fds.size() < least)
      return make_error(twohopRemoteError, "a local rank passed {} descriptors for GPU calls, expected {} or more",
                        fds.size(), least);
    std::vector<Fd> of_inboxes;
    const size_t n_windows = placement.windows_on_gpu ? fds.size() - (apart ? 1 : 0) : 1;
    for (size_t i = n_windows; i < fds.size(); ++i) of_inboxes.push_back(std::move(fds[i]));
    fds.resize(n_windows);
    Member m;
    auto windows = map_fds(placement.windows_on_gpu, std::move(fds), window_bytes(count));
    if (!windows) return windows.error();
    m.windows = std::move(*windows);
    if (!apart) return Result<Member>(std::move(m));
    auto inboxes = map_fds(placement.inboxes_on_gpu, std::move(of_inboxes), inbox_bytes(count));
    if (!inboxes) return inboxes.error();
    m.inboxes = std::move(*inboxes);
    return Result<Member>(std::move(m));
  }
};

size_t GpuNode::segment_bytes(const WindowMap& map, const GpuPlacement& placement, size_t locals, size_t inboxes) {
  const size_t boards = locals * map.window(0);
  const size_t windows = map.window(map.channels) - map.window(0);
  const bool together = placement.inboxes_on_gpu == placement.windows_on_gpu;
  return boards + windows + (together ? inboxes * 2 * map.inbox_bytes : 0);
}

Result<std::unique_ptr<GpuNode>> GpuNode::create(GpuRuntime& runtime, int device, const NodeMembers& members,
                                                 const WindowMap& map, const GpuPlacement& placement,
                                                 LocalExchange& exchange, const Secret& secret, Deadline deadline) {
  auto node = std::make_unique<GpuNode>();
  node->placement_ = placement;
  node->members_.resize(members.ranks.size());
  const Maker maker{runtime, device, map, placement, members.ranks.size()};
  const size_t me = members.index_of(members.me);

  // A rank that fails takes part in the exchange all the same, with no more than nothing to give.
  auto own = maker.make_own(members.inboxes[me]);
  Result<std::vector<Fd>> fds = std::vector<Fd>();
  if (own) fds = Maker::export_own(*own, maker.inboxes_apart(members.inboxes[me]));
  std::vector<int> given;
  if (fds)
    for (const Fd& fd : *fds) given.push_back(fd.get());
  Fd nothing;
  if (given.empty()) {
    nothing = Fd(::eventfd(0, EFD_CLOEXEC));
    given.push_back(nothing.get());
  }
  auto peers = exchange.exchange(members.me, members.others(), given, secret, deadline);
  if (!own) return own.error();
  if (!fds) return fds.error();
  if (!peers) return peers.error();
  node->members_[me] = std::move(*own);
  for (LocalPeer& peer : *peers) {
    const size_t i = members.index_of(peer.rank);
    if (peer.fds.empty()) return make_error(twohopRemoteError, "rank {}: {}", peer.rank, peer.failure);
    auto member = maker.map_peer(std::move(peer.fds), members.inboxes[i]);
    if (!member) return member.error();
    node->members_[i] = std::move(*member);
  }
  node->fill_in(map, members, static_cast<int>(me));
  return Result<std::unique_ptr<GpuNode>>(std::move(node));
}

void GpuNode::fill_in(const WindowMap& map, const NodeMembers& members, int me) {
  const size_t board_bytes = map.window(0), locals = members.ranks.size();
  inboxes_ = members.inboxes[static_cast<size_t>(me)];
  addresses_.me = me;
  addresses_.map = map;
  const bool apart = placement_.inboxes_on_gpu != placement_.windows_on_gpu;
  for (size_t i = 0; i < locals; ++i) {
    std::byte* base = members_[i].windows.data();
    boards_.push_back(members_[static_cast<size_t>(me)].windows.data() + i * board_bytes);
    boards_of_me_.push_back(base + static_cast<size_t>(me) * board_bytes);
    // After its boards a segment goes on as the host's does from its first window.
    addresses_.segments.push_back(base + (locals - 1) * board_bytes);
    if (apart) addresses_.inbox_sets.push_back(members.inboxes[i] > 0 ? members_[i].inboxes.data() : nullptr);
  }
  addresses_.counter_sets = boards_;
}

std::span<std::byte> GpuNode::own_segment() const {
  return members_[static_cast<size_t>(me())].windows.bytes();
}
std::span<std::byte> GpuNode::own_inboxes() const {
  if (inboxes_ == 0) return {};
  return {addresses_.inbox(me(), 0), inboxes_ * 2 * addresses_.map.inbox_bytes};
}

}  // namespace twohop
