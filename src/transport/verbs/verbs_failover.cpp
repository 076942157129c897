// When is a rail given up, when is it gone back to, and where does a path go meanwhile? Decides; the protocol and its
// argument are in verbs_failover.hpp, the work is done in verbs_retire.cpp and verbs_reconnect.cpp.
#include <algorithm>

#include "base/log.hpp"
#include "transport/verbs/verbs_endpoint.hpp"

namespace twohop::verbs {
namespace {

using Phase = PathState::Phase;
constexpr uint64_t kDrainNs = 2'000'000'000;  // a device that flushes nothing has lost its queue pairs

bool has_bit(uint64_t bits, size_t i) {
  return i >= 64 || (bits >> i & 1) != 0;
}

}  // namespace

/// Bugs and memory that is gone would follow to every rail.
bool is_of_the_rail(ibv_wc_status status) {
  switch (status) {
    case IBV_WC_RETRY_EXC_ERR:
    case IBV_WC_WR_FLUSH_ERR:
    case IBV_WC_REM_OP_ERR:
    case IBV_WC_REM_INV_REQ_ERR:
    case IBV_WC_FATAL_ERR:
    case IBV_WC_RESP_TIMEOUT_ERR:
    case IBV_WC_GENERAL_ERR:
      return true;
    default:
      return false;
  }
}

/// Asks the devices: an event may not have been read yet.
uint64_t VerbsEndpoint::usable_rails() const {
  uint64_t bits = 0;
  for (size_t r = 0; r < rails_.size() && r < 64; ++r)
    if (!rails_[r].down && port_is_active(rails_[r])) bits |= uint64_t{1} << r;
  return bits;
}

bool VerbsEndpoint::is_usable(const Peer& p, const Path& way) const {
  return has_bit(usable_rails(), way.local_rail) && has_bit(p.usable, way.remote_rail);
}

/// All pairs of rails that may carry a path between these two ranks.
std::vector<Path> VerbsEndpoint::ways(const Peer& p) const {
  const std::vector<RailEnd> here = ends_of(rails_), there = ends_of(p.rails);
  std::vector<Path> ways;
  for (const RailPair& pair : leads(p) ? pairs_in_reach(here, there) : pairs_in_reach(there, here)) {
    Path way{pair.lower, pair.higher, pair.gids.lower, pair.gids.higher, pair.gids.reach};
    if (!leads(p)) {
      std::swap(way.local_rail, way.remote_rail);
      std::swap(way.local_gid, way.remote_gid);
    }
    ways.push_back(way);
  }
  return ways;
}

/// How many paths of all peers are on this rail.
size_t VerbsEndpoint::users_of(size_t rail) const {
  size_t users = 0;
  for (const Peer& p : peers_)
    users += static_cast<size_t>(
        std::count_if(p.paths.begin(), p.paths.end(), [&](const Path& path) { return path.local_rail == rail; }));
  return users;
}

/// Of the ways that have not failed: home, else the one that has least to carry, here and there.
std::optional<Path> VerbsEndpoint::choose(const Peer& p, size_t path, bool only_usable) const {
  const PathState& state = p.states[path];
  std::optional<Path> best;
  std::array<size_t, 3> best_cost{};
  for (const Path& way : ways(p)) {
    if (only_usable && !is_usable(p, way)) continue;
    if (std::find(state.tried.begin(), state.tried.end(), std::pair(way.local_rail, way.remote_rail)) !=
        state.tried.end())
      continue;
    const auto there = static_cast<size_t>(std::count_if(
        p.paths.begin(), p.paths.end(), [&](const Path& other) { return other.remote_rail == way.remote_rail; }));
    const std::array<size_t, 3> cost{!same_rails(way, p.home[path]), users_of(way.local_rail), there};
    if (best && cost >= best_cost) continue;
    best = way;
    best_cost = cost;
  }
  return best;
}

/// Whether a path that fails now could go on elsewhere.
bool VerbsEndpoint::another_way(const Peer& p, size_t path) const {
  if (rails_.size() == 1 && p.rails.size() == 1) return false;
  const PathState& state = p.states[path];
  const bool worked = std::any_of(qps_.begin(), qps_.end(), [&](const Qp& qp) {
    return &peers_[qp.peer] == &p && path_number(qp) == path && qp.proven;
  });
  for (const Path& way : ways(p)) {
    const bool tried = !worked && std::find(state.tried.begin(), state.tried.end(),
                                            std::pair(way.local_rail, way.remote_rail)) != state.tried.end();
    if (!tried && !same_rails(way, p.paths[path]) && is_usable(p, way)) return true;
  }
  return false;
}

bool VerbsEndpoint::in_trouble() const {
  return std::any_of(peers_.begin(), peers_.end(), [](const Peer& p) {
    return !p.goodbye &&
           std::any_of(p.states.begin(), p.states.end(), [](const PathState& s) { return s.phase != Phase::kUp; });
  });
}

bool VerbsEndpoint::serve_between_calls() {
  look_at_events_ = true;
  return poll() && in_trouble();
}

/// Called often, also when nothing is wrong. Nothing here waits.
Result<> VerbsEndpoint::look_after_paths() {
  if (std::exchange(rails_changed_, false))
    if (auto r = look_after_rails(); !r) return r;
  for (Peer& p : peers_)
    for (size_t i = 0; i < p.states.size(); ++i)
      if (auto r = look_after(p, i); !r) return r;
  for (Peer& p : peers_)
    if (auto r = push_output(p, Deadline()); !r) return r;
  const bool trouble = in_trouble();
  if (was_in_trouble_ && !trouble) print_load_plan();
  was_in_trouble_ = trouble;
  look_at_events_ |= trouble;
  return {};
}

Result<> VerbsEndpoint::look_after(Peer& p, size_t path) {
  PathState& state = p.states[path];
  switch (state.phase) {
    case Phase::kUp:
      return is_displaced(p, path) && leads(p) && !p.goodbye && !draining_ ? try_home(p, path) : Result<>();
    case Phase::kDraining:
      if (!is_drained(p, path)) {
        if (now_ns() - state.since_ns < kDrainNs) return {};
        log_info("rank {}: path {} to rank {}: its device has not flushed all receives, they are taken for lost", rank_,
                 path, p.rank);
      }
      return retire(p, path);
    case Phase::kGone:
      return leads(p) && state.theirs && !p.goodbye ? find_way(p, path) : Result<>();
    case Phase::kConnecting:
      return {};
  }
  return {};
}

/// A port went down or came back: others must know, paths leave it, and paths that belong there are tried at once.
Result<> VerbsEndpoint::look_after_rails() {
  const uint64_t usable = usable_rails();
  for (Peer& p : peers_) {
    if (p.goodbye || p.left || p.said_goodbye || (rails_.size() == 1 && p.rails.size() == 1)) continue;
    if (p.told_usable != usable)
      if (auto r = tell(p, ControlKind::kRails, encode_rails(usable)); !r) return r;
    p.told_usable = usable;
    for (size_t i = 0; i < p.paths.size(); ++i) {
      p.states[i].probe_at_ns = 0;
      if (auto r = leave_down_rail(p, i); !r) return r;
    }
  }
  return {};
}

/// Does not wait for the retries to be exceeded where there is another way.
Result<> VerbsEndpoint::leave_down_rail(Peer& p, size_t path) {
  const size_t r = p.paths[path].local_rail;
  if (p.states[path].phase != Phase::kUp || has_bit(usable_rails(), r) || !another_way(p, path)) return {};
  if (qps_[p.first_qp + path * p.qps_per_path].dead) return {};
  return take_down(p, path, port_down(p, path), false);
}

Error VerbsEndpoint::port_down(const Peer& p, size_t path) const {
  Error e = make_error(twohopRemoteError, "{}: the port went down: check cable, switch and the host's log",
                       describe(qps_[p.first_qp + path * p.qps_per_path]));
  e.scope = Scope::kPeer;
  e.rank = p.rank;
  e.rail = static_cast<int>(p.paths[path].local_rail);
  return e;
}

/// Once per rail and outage in this process; the other rank says it of its own.
void VerbsEndpoint::warn_of_dead_rail(const Peer& p, size_t path, const Error& cause) {
  const size_t r = p.paths[path].local_rail;
  Rail& rail = rails_[r];
  if (rail.outage) {
    log_debug("rank {}: rail {} ({}) to rank {} is given up: {}", rank_, r, rail.name, p.rank, cause.message);
    return;
  }
  rail.outage.emplace(rail.name);
  ++counters_.rail_failures;
  log(rail.outage->first() ? LogLevel::kWarn : LogLevel::kInfo,
      "rank {}: rail {} ({}) is given up; its connections go on over other rails, with less bandwidth, until it works "
      "again: {}",
      rank_, r, rail.name, cause.message);
}

void VerbsEndpoint::end_outage(Rail& rail) {
  if (!rail.outage) return;
  const bool last = rail.outage->end();
  rail.outage.reset();
  log(last ? LogLevel::kWarn : LogLevel::kInfo, "rank {}: rail {} works again", rank_, rail.name);
}

}  // namespace twohop::verbs
