// How deep are the queues, and how are the queue pairs made and connected? Depths follow from the links, so that a
// correct run never finds a queue full or a receive missing.
#include <algorithm>
#include <random>

#include "base/check.hpp"
#include "base/log.hpp"
#include "transport/verbs/verbs_endpoint.hpp"

namespace twohop::verbs {
namespace {

constexpr uint32_t kInlineBytes = sizeof(TagSlot);
constexpr size_t kReceiveList = 32;     // receives posted at once
constexpr size_t kWritesPerPart = 3;    // call tag and two runs
constexpr uint32_t kMinMaxPosted = 16;  // below this a device is of no use

uint32_t random_psn() {
  static thread_local std::random_device random;
  return random() & 0xffffff;
}

}  // namespace

/// A put consumes one receive on each of its queue pairs, a credit one on the first; neither is sent again before the
/// other end has answered.
VerbsEndpoint::QpLoad VerbsEndpoint::load_of(const Peer& p, size_t number) const {
  QpLoad load;
  auto uses = [&](uint16_t channel) {
    const std::vector<size_t> qps = qps_of(p, channel);
    return std::find(qps.begin(), qps.end(), number) != qps.end();
  };
  for (const OutLink* l : p.out) {
    if (!uses(l->id.channel)) continue;
    load.puts += l->max_in_flight * kWritesPerPart;
    load.receives += l->max_in_flight;  // credits
  }
  for (const InLink* l : p.in) {
    if (!uses(l->id.channel)) continue;
    load.credits += l->max_in_flight;
    load.receives += l->max_in_flight;
  }
  load.receives += kReceiveList;                   // used, and not posted again yet
  load.credits += 2 * config_.rules.signal_every;  // finished, and not known to be
  return load;
}

/// Half of the slots of one call, of all links whose credits go over this queue pair.
uint32_t VerbsEndpoint::credit_threshold(const Peer& p, size_t number) const {
  uint32_t slots = 0;
  for (const InLink* l : p.in)
    if (qps_of(p, l->id.channel).front() == number) slots += l->max_in_flight / 2;
  return std::max(1u, slots / 2);
}

ConnectionPlan VerbsEndpoint::plan_connection(const Peer& p, size_t number) const {
  return plan_way(p, p.paths[number / p.qps_per_path], number);
}

ConnectionPlan VerbsEndpoint::plan_way(const Peer& p, const Path& path, size_t number) const {
  const Rail& mine = rails_[path.local_rail];
  const OfferedRail& theirs = p.rails[path.remote_rail];
  ConnectionPlan plan;
  plan.local = {0, random_psn(), mine.lid, {}};
  plan.remote.lid = theirs.row.lid;
  if (!mine.gids.empty()) {
    const GidEntry& gid = mine.gids[path.local_gid].entry;
    plan.local.gid = gid.gid;
    plan.gid_index = static_cast<uint8_t>(gid.index);
  }
  if (!theirs.gids.empty()) plan.remote.gid = theirs.gids[path.remote_gid].entry.gid;
  plan.port = mine.port;
  plan.global = mine.ethernet;
  plan.mtu = std::min(mine.mtu, static_cast<ibv_mtu>(theirs.row.mtu));
  // Another label for each queue pair: routers and links of a bond are chosen by it.
  plan.flow_label = static_cast<uint32_t>((number + 1) * 0x9e37 + static_cast<size_t>(rank_) * 0x85eb) & 0xfffff;
  plan.tuning = config_.tuning;
  plan.tuning.timeout = staggered_timeout(config_.tuning.timeout, config_.timeout_stagger, number);
  return plan;
}

/// Of its completion queue: on failure everything completes.
size_t VerbsEndpoint::entries_of(const Peer& p, size_t number) const {
  return load_of(p, number).receives + 2 * config_.rules.max_posted;
}

Result<std::shared_ptr<CompletionQueue>> VerbsEndpoint::make_completion_queue(size_t rail_index, size_t entries) {
  const Rail& rail = rails_[rail_index];
  if (entries > static_cast<size_t>(rail.max_completions))
    return make_error(
        twohopInvalidUsage,
        "{} has completion queues of at most {} entries, {} are needed: set a smaller TWOHOP_NCHANNELS or "
        "TWOHOP_IB_QPS_PER_CONNECTION",
        rail.name, rail.max_completions, entries);
  auto cq = CompletionQueue::create(rail.context, rail.channel, static_cast<int>(entries));
  if (cq) polled_.push_back({*cq, rail_index, false});
  return cq;
}

Result<> VerbsEndpoint::make_qp(size_t peer_index, size_t number) {
  const Peer& p = peers_[peer_index];
  const auto id = static_cast<uint32_t>(qps_.size());
  const QpLoad load = load_of(p, number);
  SendQueue queue(nullptr, id, load.puts + load.credits + 1, config_.rules, &counters_);
  Qp& qp = qps_.emplace_back(Qp{.pair = {},
                                .plan = {},
                                .peer = peer_index,
                                .queue = std::move(queue),
                                .receives = std::vector<ibv_recv_wr>(kReceiveList),
                                .credits_left = static_cast<uint32_t>(load.credits),
                                .credit_threshold = credit_threshold(p, number)});
  for (size_t i = 0; i < kReceiveList; ++i) {
    qp.receives[i].wr_id = SendQueue::receive_wr_id(id);
    qp.receives[i].next = i + 1 < kReceiveList ? &qp.receives[i + 1] : nullptr;
  }
  qp.owed.reserve(p.in.size());
  return prepare_qp(qp, number, rails_[p.paths[number / p.qps_per_path].local_rail].cq);
}

/// A queue pair in INIT with its receives posted, on the rail that its path has now.
Result<> VerbsEndpoint::prepare_qp(Qp& qp, size_t number, const std::shared_ptr<CompletionQueue>& cq) {
  const Peer& p = peers_[qp.peer];
  const size_t rail_index = p.paths[number / p.qps_per_path].local_rail;
  Rail& rail = rails_[rail_index];
  QueueDepths depths{2 * config_.rules.max_posted, static_cast<uint32_t>(load_of(p, number).receives), kInlineBytes};
  TWOHOP_CHECK(sound(config_.rules, depths.send), "{} posted of {}, every {} signalled", config_.rules.max_posted,
               depths.send, config_.rules.signal_every);
  if (depths.receive > rail.max_requests)
    return make_error(twohopInvalidUsage,
                      "{} has queues of at most {} requests, {} receives are needed: set a smaller TWOHOP_NCHANNELS",
                      rail.name, rail.max_requests, depths.receive);
  auto pair = QueuePair::create(rail.pd, cq, depths);
  if (!pair) return pair.error();
  qp.plan = plan_connection(p, number);
  qp.plan.local.qpn = (*pair)->qp_num;
  qp.rail = rail_index;
  qp.inline_tags = depths.inline_bytes >= kInlineBytes;
  qp.receive_depth = depths.receive;
  qp.proven = false;
  qp.pair = std::move(*pair);
  qp.queue.use(qp.pair.get());
  if (auto r = modify(qp, to_init(qp.plan), "INIT"); !r) return r;
  // All of them now, in whole lists: the peer may send as soon as it is told that we are ready.
  for (qp.consumed = depths.receive; qp.consumed >= kReceiveList;)
    if (auto r = post_receives(qp); !r) return r;
  return {};
}

Result<> VerbsEndpoint::start_qp(Qp& qp, const QpRow& row) {
  qp.plan.remote.qpn = row.qpn;
  qp.plan.remote.psn = row.psn;
  if (auto r = modify(qp, to_ready_to_receive(qp.plan), "RTR"); !r) return r;
  if (auto r = modify(qp, to_ready_to_send(qp.plan), "RTS"); !r) return r;
  log_debug("rank {}: {}", rank_, describe(qp));
  return {};
}

Result<> VerbsEndpoint::make_queues() {
  for (Rail& rail : rails_) {
    SendRules& rules = config_.rules;
    rules.max_posted = std::min(rules.max_posted, rail.max_requests / 2);
    if (rules.max_posted < kMinMaxPosted)
      return make_error(twohopInvalidUsage, "{} has queues of at most {} requests, at least {} are needed", rail.name,
                        rail.max_requests, 2 * kMinMaxPosted);
    rules.signal_every = std::min(rules.signal_every, rules.max_posted / 2);
  }
  for (size_t r = 0; r < rails_.size(); ++r) {
    size_t entries = 1;
    for (const Peer& p : peers_)
      for (size_t q = 0; q < p.paths.size() * p.qps_per_path; ++q)
        if (p.paths[q / p.qps_per_path].local_rail == r) entries += entries_of(p, q);
    auto cq = make_completion_queue(r, entries);
    if (!cq) return cq.error();
    rails_[r].cq = std::move(*cq);
  }
  for (size_t i = 0; i < peers_.size(); ++i)
    for (size_t q = 0; q < peers_[i].paths.size() * peers_[i].qps_per_path; ++q)
      if (auto made = make_qp(i, q); !made) return made;
  dirty_.reserve(qps_.size());
  return {};
}

Result<> VerbsEndpoint::connect_qps(Peer& p, Deadline deadline) {
  const size_t count = p.paths.size() * p.qps_per_path;
  auto rows = receive_rows(p.socket.get(), count, deadline);
  if (!rows) return about(p, rows.error().code, rows.error().message);
  for (size_t q = 0; q < count; ++q)
    if (auto r = start_qp(qps_[p.first_qp + q], (*rows)[q]); !r) return r;
  if (auto r = send_control(p.socket.get(), ControlKind::kReady, 0, deadline); !r)
    return about(p, r.error().code, r.error().message);
  return {};
}

Result<> VerbsEndpoint::modify(Qp& qp, const Transition& t, const char* to) const {
  ibv_qp_attr attributes = t.attributes;
  const Rail& rail = rails_[qp.rail];
  const int failed = rail.context->api().modify_qp(qp.pair.get(), &attributes, t.mask);
  if (failed == 0) return {};
  Error e = system_error(failed, "{}: cannot go to {}", describe(qp), to);
  e.message += fmt::format("; {}", advice_for_transition(qp, failed));
  e.scope = Scope::kRail;
  e.rank = peers_[qp.peer].rank;
  e.rail = static_cast<int>(qp.rail);
  return e;
}

/// Posts one list of receives if so many have been used.
Result<> VerbsEndpoint::replenish(Qp& qp) {
  if (qp.consumed < kReceiveList || qp.dead) return {};
  return post_receives(qp);
}

Result<> VerbsEndpoint::post_receives(Qp& qp) {
  ibv_recv_wr* bad = nullptr;
  if (const int failed = ibv_post_recv(qp.pair.get(), qp.receives.data(), &bad))
    return system_error(failed, "{}: cannot post {} receives", describe(qp), kReceiveList);
  qp.consumed -= kReceiveList;
  return {};
}

}  // namespace twohop::verbs
