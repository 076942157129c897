// How does every rank get every rank's bytes? Up the tree, each rank adding its own; down again, all of them.
#include <poll.h>

#include <algorithm>
#include <cerrno>

#include "bootstrap/tree.hpp"
#include "bootstrap/wire.hpp"

namespace twohop {
namespace {

constexpr int kSliceMs = 100;  // an announcement by another thread of this process does not wake the poll

Error left(const TreeLink& link) {
  Error e = make_error(twohopRemoteError,
                       "rank {} ({}) left the communicator while it was being set up; see its own output for the cause",
                       link.rank(), link.identity());
  e.rank = link.rank();
  return e;
}

}  // namespace

/// The entries of this rank and of all below it, once all have come.
bool Tree::take_subtree(Gather& g, Bytes& out) {
  for (const TreeLink& child : children())
    if (!child.data) return false;
  Writer w;
  w.i32(rank_);
  w.u32(static_cast<uint32_t>(g.mine.size()));
  w.raw(g.mine);
  for (TreeLink& child : children()) {
    w.raw(*child.data);
    child.data.reset();
  }
  out = w.take();
  return true;
}

void Tree::send_up(Gather& g) {
  Bytes subtree;
  if (!take_subtree(g, subtree)) return;
  g.sent_up = true;
  if (has_parent()) {
    links_.front().send(FrameType::kGather, subtree);
  } else {
    g.all = std::move(subtree);
    send_down(g);
  }
}

void Tree::send_down(Gather& g) {
  for (TreeLink& child : children()) child.send(FrameType::kAll, g.all);
  g.sent_down = true;
}

bool Tree::awaited(const Gather& g, const TreeLink& link) const {
  if (link.data) return false;
  return is_parent(link) ? g.sent_up && !g.sent_down : !g.sent_up;
}

/// A rank that we need data from has left.
void Tree::fail_if_cut_off(const Gather& g) {
  for (const TreeLink& link : links_) {
    if (!awaited(g, link) || (link.open() && !link.goodbye_received)) continue;
    fail(left(link), nullptr);
  }
}

void Tree::fail_if_left() {
  const std::lock_guard lock(mutex_);
  for (const TreeLink& link : links_)
    if (link.goodbye_received) fail(left(link), nullptr);
}

void Tree::exchange_frames() {
  for (TreeLink& link : links_) {
    link.flush();
    read(link);
  }
  deliver_ = false;  // the caller of all_gather gets the failure
}

/// True when this rank has everything and owes nothing.
Result<bool> Tree::step(Gather& g) {
  exchange_frames();
  if (!failure_ && !g.sent_up) send_up(g);
  if (!failure_ && g.sent_up && !g.sent_down && links_.front().data) {
    g.all = std::move(*links_.front().data);
    links_.front().data.reset();
    send_down(g);
  }
  fail_if_cut_off(g);
  if (failure_) return *failure_;
  return g.sent_down && std::none_of(links_.begin(), links_.end(), [](const TreeLink& l) { return l.pending(); });
}

Error Tree::late_ranks(const Gather& g) {
  std::vector<int> late;
  const std::lock_guard lock(mutex_);
  for (const TreeLink& link : links_)
    if (awaited(g, link) || link.pending()) late.push_back(link.rank());
  return make_error(
      twohopTimeout,
      "the ranks' exchange did not finish in time: waiting for rank(s) {}, or for ranks behind them in the "
      "control tree",
      rank_list(late));
}

Result<std::vector<Bytes>> Tree::parse_all(std::span<const std::byte> all) const {
  std::vector<Bytes> by_rank(static_cast<size_t>(nranks_));
  std::vector<bool> seen(by_rank.size());
  Reader r(all);
  while (r.ok() && !r.empty()) {
    const auto rank = static_cast<size_t>(r.u32());
    const uint32_t bytes = r.u32();
    const auto data = r.raw(bytes);
    if (!r.ok() || rank >= by_rank.size() || bytes > kMaxGatherBytes || seen[rank])
      return make_error(twohopInternalError, "the ranks' exchange delivered malformed data");
    by_rank[rank].assign(data.begin(), data.end());
    seen[rank] = true;
  }
  if (!r.ok() || std::find(seen.begin(), seen.end(), false) != seen.end())
    return make_error(twohopInternalError, "the ranks' exchange did not deliver the data of all ranks");
  return by_rank;
}

Result<std::vector<Bytes>> Tree::all_gather(std::span<const std::byte> mine, Deadline deadline) {
  if (mine.size() > kMaxGatherBytes)
    return make_error(twohopInternalError, "a rank wants to exchange {} bytes; at most {} are possible", mine.size(),
                      kMaxGatherBytes);
  Gather g;
  g.mine = mine;
  for (;;) {
    std::vector<pollfd> fds;
    {
      const std::lock_guard lock(mutex_);
      auto done = step(g);
      if (!done) return done.error();
      if (*done) {
        ++exchanges_;
        return parse_all(g.all);
      }
    }
    append_to(fds);
    if (std::chrono::steady_clock::now() >= deadline) return late_ranks(g);
    if (poll(fds.data(), fds.size(), std::min(poll_timeout_ms(deadline), kSliceMs)) < 0 && errno != EINTR)
      return system_error(errno, "poll failed");
  }
}

}  // namespace twohop
