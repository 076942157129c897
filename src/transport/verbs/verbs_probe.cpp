// Does a rail that was given up work again? A scratch queue pair on it writes nothing to the peer; when that is
// acknowledged, the path goes back. The lower rank of the two asks.
#include <algorithm>

#include "base/log.hpp"
#include "transport/verbs/verbs_endpoint.hpp"

namespace twohop::verbs {
namespace {

constexpr int kProbeEntries = 4;

}  // namespace

/// A step of it: ask, look for the answer, go back.
Result<> VerbsEndpoint::try_home(Peer& p, size_t path) {
  PathState& state = p.states[path];
  if (!state.probe) {
    if (now_ns() < state.probe_at_ns || !is_usable(p, p.home[path])) return {};
    return start_probe(p, path);
  }
  ibv_wc wc{};
  if (ibv_poll_cq(state.probe->cq->get(), 1, &wc) == 0) {
    const double limit_s = patience_seconds(config_.tuning, false);
    if (static_cast<double>(now_ns() - state.since_ns) * 1e-9 < limit_s) return {};
    wc.status = IBV_WC_RETRY_EXC_ERR;
  }
  give_probe_up(state);
  if (wc.status == IBV_WC_SUCCESS) return take_down(p, path, std::nullopt, true);
  log_debug("rank {}: {} to rank {} does not work yet", rank_, rails_[p.home[path].local_rail].name, p.rank);
  state.probe_pause_ns *= 2;
  state.probe_at_ns = now_ns() + state.probe_pause_ns;
  return {};
}

Result<> VerbsEndpoint::start_probe(Peer& p, size_t path) {
  PathState& state = p.states[path];
  state.probe_at_ns = now_ns() + state.probe_pause_ns;
  state.since_ns = now_ns();
  auto probe = make_probe(p, path);
  if (!probe) {
    log_debug("rank {}: {}", rank_, probe.error().message);
    return {};
  }
  const QpEnd& mine = probe->plan.local;
  const Path& home = p.home[path];
  state.probe = std::move(*probe);
  return tell(p, ControlKind::kProbe,
              encode(ConnectMessage{{static_cast<uint32_t>(path), state.epoch},
                                    static_cast<uint32_t>(home.local_rail),
                                    static_cast<uint32_t>(home.remote_rail),
                                    {{mine.qpn, mine.psn}}}));
}

Result<Probe> VerbsEndpoint::make_probe(const Peer& p, size_t path) const {
  const Path& home = p.home[path];
  const Rail& rail = rails_[home.local_rail];
  auto cq = CompletionQueue::create(rail.context, rail.channel, kProbeEntries);
  if (!cq) return cq.error();
  QueueDepths depths{1, 1, 0};
  auto pair = QueuePair::create(rail.pd, *cq, depths);
  if (!pair) return pair.error();
  Probe probe{*cq, std::move(*pair), plan_way(p, home, path * p.qps_per_path)};
  probe.plan.local.qpn = probe.pair->qp_num;
  if (auto r = change(probe.pair.get(), rail, to_init(probe.plan)); !r) return r.error();
  return probe;
}

Result<> VerbsEndpoint::connect_probe(Probe& probe, size_t rail, const QpRow& row) const {
  probe.plan.remote.qpn = row.qpn;
  probe.plan.remote.psn = row.psn;
  if (auto r = change(probe.pair.get(), rails_[rail], to_ready_to_receive(probe.plan)); !r) return r;
  return change(probe.pair.get(), rails_[rail], to_ready_to_send(probe.plan));
}

Result<> VerbsEndpoint::change(ibv_qp* qp, const Rail& rail, const Transition& t) const {
  ibv_qp_attr attributes = t.attributes;
  const int failed = rail.context->api().modify_qp(qp, &attributes, t.mask);
  if (failed == 0) return {};
  return system_error(failed, "a queue pair of {} cannot go to state {}", rail.name,
                      static_cast<int>(attributes.qp_state));
}

void VerbsEndpoint::give_probe_up(PathState& state) {
  state.probe.reset();
}

/// The higher rank's part; without a row the rail is of no use.
Result<> VerbsEndpoint::accept_probe(Peer& p, const Payload& payload) {
  auto m = decode_connect(payload);
  if (!m || leads(p) || m->at.path >= p.states.size() || m->rows.size() != 1) return violation(p, "a malformed probe");
  PathState* state = state_of(p, m->at);
  if (!state || state->phase != PathState::Phase::kUp) return {};
  const QpRow theirs = m->rows[0];
  m->rows.clear();
  auto probe = make_probe(p, m->at.path);
  if (probe && connect_probe(*probe, p.home[m->at.path].local_rail, theirs)) {
    m->rows.push_back({probe->plan.local.qpn, probe->plan.local.psn});
    state->probe = std::move(*probe);
  }
  return tell(p, ControlKind::kProbeReply, encode(*m));
}

Result<> VerbsEndpoint::accept_probe_reply(Peer& p, const Payload& payload) {
  auto m = decode_connect(payload);
  if (!m || !leads(p) || m->at.path >= p.states.size()) return violation(p, "a malformed reply to a probe");
  PathState* state = state_of(p, m->at);
  if (!state || !state->probe || state->probe->posted) return {};
  ibv_send_wr wr{}, *bad = nullptr;
  wr.opcode = IBV_WR_RDMA_WRITE;
  wr.send_flags = IBV_SEND_SIGNALED;
  const bool connected = m->rows.size() == 1 && connect_probe(*state->probe, p.home[m->at.path].local_rail, m->rows[0]);
  if (connected && ibv_post_send(state->probe->pair.get(), &wr, &bad) == 0) {
    state->probe->posted = true;
    return {};
  }
  give_probe_up(*state);
  state->probe_pause_ns *= 2;
  state->probe_at_ns = now_ns() + state->probe_pause_ns;
  return {};
}

}  // namespace twohop::verbs
