// How does a path come up again on other rails? The messages of verbs_failover.hpp, as they are sent and served.
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "base/check.hpp"
#include "base/log.hpp"
#include "transport/verbs/verbs_endpoint.hpp"

namespace twohop::verbs {
namespace {

using Phase = PathState::Phase;

}  // namespace

// ---- The lower rank chooses.

/// Without a rail for now it waits as long as a device would have gone on trying.
Result<> VerbsEndpoint::find_way(Peer& p, size_t path) {
  PathState& state = p.states[path];
  while (const auto way = choose(p, path, true)) {
    auto made = make_way(p, path, *way);
    if (made) return {};
    if (made.error().scope != Scope::kRail) return made;
    state.tried.emplace_back(way->local_rail, way->remote_rail);
  }
  const double patience_s = give_up_seconds(config_.tuning.timeout, config_.tuning.retry_count);
  const double waited_s = static_cast<double>(now_ns() - state.since_ns) * 1e-9;
  if (waited_s < patience_s && choose(p, path, false)) return {};
  Error e = state.cause ? *state.cause : about(p, twohopRemoteError, "its rail to this rank is dead");
  e.message += ". No other rail between the two ranks works either";
  return e;
}

/// New queue pairs on these rails, and what is to be sent over them. Errors of scope rail: not on this one.
Result<> VerbsEndpoint::make_way(Peer& p, size_t path, const Path& way) {
  PathState& state = p.states[path];
  p.paths[path] = way;
  auto made = make_pairs(p, path);
  if (!made) return made;
  rebuild(p, path);
  ++state.epoch;
  state.phase = Phase::kConnecting;
  state.since_ns = now_ns();
  return tell(p, ControlKind::kConnect, encode(connect_message(p, path)));
}

/// At home the rail's own completion queue has room, elsewhere a new one is made. None is left after an error.
Result<> VerbsEndpoint::make_pairs(Peer& p, size_t path) {
  PathState& state = p.states[path];
  const size_t first = path * p.qps_per_path;
  auto fail = [&](Error e) -> Error {
    drop_pairs(p, path);
    log_debug("rank {}: {}", rank_, e.message);
    e.scope = Scope::kRail;
    return e;
  };
  if (is_displaced(p, path)) {
    size_t entries = 1;
    for (size_t q = first; q < first + p.qps_per_path; ++q) entries += entries_of(p, q);
    auto cq = make_completion_queue(p.paths[path].local_rail, entries);
    if (!cq) return fail(cq.error());
    state.cq = std::move(*cq);
  }
  for (size_t q = first; q < first + p.qps_per_path; ++q)
    if (auto r = prepare_qp(qps_[p.first_qp + q], q, state.cq ? state.cq : rails_[p.paths[path].local_rail].cq); !r)
      return fail(r.error());
  return {};
}

/// Nothing was posted on them yet, or the peer says that it will not answer.
void VerbsEndpoint::drop_pairs(Peer& p, size_t path) {
  PathState& state = p.states[path];
  for (size_t q = path * p.qps_per_path; q < (path + 1) * p.qps_per_path; ++q) qps_[p.first_qp + q].pair = {};
  if (state.cq) std::erase_if(polled_, [&](const PolledQueue& queue) { return queue.cq == state.cq; });
  state.cq.reset();
}

ConnectMessage VerbsEndpoint::connect_message(const Peer& p, size_t path) const {
  const Path& way = p.paths[path];
  ConnectMessage m{{static_cast<uint32_t>(path), p.states[path].epoch},
                   static_cast<uint32_t>(leads(p) ? way.local_rail : way.remote_rail),
                   static_cast<uint32_t>(leads(p) ? way.remote_rail : way.local_rail),
                   {}};
  for (size_t q = path * p.qps_per_path; q < (path + 1) * p.qps_per_path; ++q) {
    const QpEnd& mine = qps_[p.first_qp + q].plan.local;
    m.rows.push_back({mine.qpn, mine.psn});
  }
  return m;
}

/// The path carries again.
Result<> VerbsEndpoint::up(Peer& p, size_t path) {
  PathState& state = p.states[path];
  state.phase = Phase::kUp;
  state.since_ns = now_ns();
  state.theirs.reset();
  state.probe_at_ns = state.since_ns + state.probe_pause_ns;
  if (!is_displaced(p, path)) {
    state.home_since_ns = state.since_ns;
    end_outage(rails_[p.paths[path].local_rail]);
    ++counters_.rail_returns;
  }
  for (size_t q = path * p.qps_per_path; q < (path + 1) * p.qps_per_path; ++q) {
    Qp& qp = qps_[p.first_qp + q];
    qp.dead = false;
    while (qp.consumed >= qp.receives.size())
      if (auto r = post_receives(qp); !r) return r;
    if (draining_) append_drain_marker(p.first_qp + q);
    mark_dirty(p.first_qp + q);
  }
  appended_ = true;
  log_info("rank {}: path {} to rank {} goes on over {} ({})", rank_, path, p.rank,
           rails_[p.paths[path].local_rail].name, describe_path(p, p.paths[path]));
  if (state.broke_while_connecting)
    return take_down(p, path, about(p, twohopRemoteError, "it broke while it was connected anew"), false);
  return leave_down_rail(p, path);
}

// ---- Messages out. The socket takes what it can; the rest goes when it can.

Result<> VerbsEndpoint::tell(Peer& p, ControlKind kind, const Payload& payload) {
  const ControlMessage m{
      kWireVersion, static_cast<uint8_t>(kind), {}, htole32(static_cast<uint32_t>(payload.size())), 0};
  const auto header = std::as_bytes(std::span(&m, 1));
  p.output.insert(p.output.end(), header.begin(), header.end());
  p.output.insert(p.output.end(), payload.begin(), payload.end());
  return push_output(p, Deadline());
}

/// Waits for the socket until the deadline, which may have passed.
Result<> VerbsEndpoint::push_output(Peer& p, Deadline deadline) {
  while (!p.output.empty()) {
    const ssize_t n = ::send(p.socket.get(), p.output.data(), p.output.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      if (deadline <= std::chrono::steady_clock::now()) return {};
      if (auto r = wait_for_fd(p.socket.get(), POLLOUT, deadline); !r) return r;
      continue;
    }
    if (n < 0) {  // it is gone; its goodbye or the end of the socket says how
      p.output.clear();
      return {};
    }
    p.output.erase(p.output.begin(), p.output.begin() + n);
  }
  return {};
}

/// An endpoint that dies takes its peers along: who has nothing under way would not notice.
void VerbsEndpoint::tell_the_end(const Error& cause) {
  if (connector_) return;  // not connected yet: other messages are expected there, and the sockets close
  for (Peer& p : peers_) {
    if (p.goodbye || p.left || p.said_goodbye || p.closed || p.ended) continue;
    if (auto r = tell(p, ControlKind::kEnd, encode(EndMessage{cause.code, cause.message})); !r)
      log_debug("rank {}: rank {} is not told: {}", rank_, p.rank, r.error().message);
  }
}

// ---- Messages in.

/// The path that a message is about; null for one of an earlier epoch.
PathState* VerbsEndpoint::state_of(Peer& p, const PathEpoch& at) {
  if (at.path >= p.states.size() || at.epoch != p.states[at.path].epoch) return nullptr;
  return &p.states[at.path];
}

Result<> VerbsEndpoint::accept_down(Peer& p, const Payload& payload) {
  auto m = decode_down(payload);
  if (!m || m->at.path >= p.states.size()) return violation(p, "a malformed word of a dead rail");
  PathState* state = state_of(p, m->at);
  if (!state || state->phase == Phase::kDraining || state->phase == Phase::kGone) return {};
  if (auto r = take_down(p, m->at.path, std::nullopt, m->planned); !r) return r;
  if (m->planned) return {};
  Error e = about(p, twohopRemoteError, fmt::format("it reports: {}", m->cause));
  log_info("rank {}: {}", rank_, e.message);
  if (!(usable_rails() >> std::min<size_t>(p.paths[m->at.path].local_rail, 63) & 1))
    warn_of_dead_rail(p, m->at.path, port_down(p, m->at.path));  // it was faster than our own event
  state->cause = std::move(e);
  return {};
}

Result<> VerbsEndpoint::accept_held(Peer& p, const Payload& payload) {
  auto m = decode_held(payload);
  PathState* state = m ? state_of(p, m->at) : nullptr;
  if (!state || state->phase == Phase::kUp || state->phase == Phase::kConnecting || state->theirs)
    return violation(p, "it says what it holds of a path that is not down");
  if (auto r = check_held(p, *m); !r) return r;
  p.usable = m->usable;
  state->theirs = std::move(*m);
  return {};
}

/// The higher rank's part.
Result<> VerbsEndpoint::accept_connect(Peer& p, const Payload& payload) {
  auto m = decode_connect(payload);
  if (!m || leads(p) || m->at.path >= p.states.size() || m->rows.size() != p.qps_per_path)
    return violation(p, "a malformed wish to connect");
  const size_t path = m->at.path;
  PathState& state = p.states[path];
  if (state.phase != Phase::kGone || !state.theirs || m->at.epoch <= state.epoch)
    return violation(p, fmt::format("it connects path {}, epoch {}, which is not ready", path, m->at.epoch));
  const std::vector<Path> all = ways(p);
  const auto way = std::find_if(all.begin(), all.end(), [&](const Path& w) {
    return w.local_rail == m->higher_rail && w.remote_rail == m->lower_rail;
  });
  if (way == all.end()) return violation(p, "it connects rails that do not reach each other");
  state.epoch = m->at.epoch;
  p.paths[path] = *way;
  Result<> made = make_pairs(p, path);
  if (made) {
    rebuild(p, path);
    for (size_t q = 0; made && q < p.qps_per_path; ++q)
      made = start_qp(qps_[p.first_qp + path * p.qps_per_path + q], m->rows[q]);
    if (!made) drop_pairs(p, path);
  }
  if (!made) return tell(p, ControlKind::kRefuse, encode(DownMessage{m->at, false, made.error().message}));
  state.phase = Phase::kConnecting;
  state.since_ns = now_ns();
  return tell(p, ControlKind::kAccept, encode(connect_message(p, path)));
}

Result<> VerbsEndpoint::accept_accept(Peer& p, const Payload& payload) {
  auto m = decode_connect(payload);
  PathState* state = m ? state_of(p, m->at) : nullptr;
  if (!state || !leads(p) || state->phase != Phase::kConnecting || m->rows.size() != p.qps_per_path)
    return violation(p, "it accepts a connection that was not asked for");
  for (size_t q = 0; q < p.qps_per_path; ++q)
    if (auto r = start_qp(qps_[p.first_qp + m->at.path * p.qps_per_path + q], m->rows[q]); !r)
      return take_down(p, m->at.path, r.error(), false);
  if (auto r = tell(p, ControlKind::kGo, encode(m->at)); !r) return r;
  return up(p, m->at.path);
}

Result<> VerbsEndpoint::accept_refuse(Peer& p, const Payload& payload) {
  auto m = decode_down(payload);
  PathState* state = m ? state_of(p, m->at) : nullptr;
  if (!state || !leads(p) || state->phase != Phase::kConnecting)
    return violation(p, "it refuses a connection that was not asked for");
  log_debug("rank {}: rank {} cannot connect: {}", rank_, p.rank, m->cause);
  drop_pairs(p, m->at.path);
  const Path& way = p.paths[m->at.path];
  state->tried.emplace_back(way.local_rail, way.remote_rail);
  state->phase = Phase::kGone;
  return {};
}

Result<> VerbsEndpoint::accept_go(Peer& p, const Payload& payload) {
  const auto at = decode_epoch(payload);
  PathState* state = at ? state_of(p, *at) : nullptr;
  if (!state || leads(p) || state->phase != Phase::kConnecting) return violation(p, "it goes on with a path not ready");
  return up(p, at->path);
}

Result<> VerbsEndpoint::accept_end(Peer& p, const Payload& payload) {
  auto m = decode_end(payload);
  if (!m) return violation(p, "a malformed word of its end");
  p.ended = true;
  return about(p, m->code, fmt::format("it reports: {}", m->cause));
}

Result<> VerbsEndpoint::accept_rails(Peer& p, const Payload& payload) {
  const auto usable = decode_rails(payload);
  if (!usable) return violation(p, "a malformed list of rails");
  p.usable = *usable;
  for (PathState& state : p.states) state.probe_at_ns = 0;
  return {};
}

}  // namespace twohop::verbs
