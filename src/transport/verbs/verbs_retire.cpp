// How does a path end on its rails? Queue pairs to ERR, everything that came over them counted, the queue pairs
// destroyed, the peer told what is here; then what is not finished is put together again for other queue pairs.
#include <algorithm>

#include "base/check.hpp"
#include "base/log.hpp"
#include "transport/verbs/verbs_endpoint.hpp"

namespace twohop::verbs {
namespace {

using Phase = PathState::Phase;
constexpr uint64_t kMaxProbePauseNs = 60'000'000'000, kHomeCountsNs = 60'000'000'000;

bool has_bit(const HeldMessage::Slot& s, size_t part) {
  return (s.parts[part / 64] >> part % 64 & 1) != 0;
}

}  // namespace

/// `cause` is empty when the peer has begun it.
Result<> VerbsEndpoint::take_down(Peer& p, size_t path, std::optional<Error> cause, bool planned) {
  PathState& state = p.states[path];
  const uint64_t now = now_ns();
  bool worked = false;
  for (size_t q = path * p.qps_per_path; q < (path + 1) * p.qps_per_path; ++q) {
    Qp& qp = qps_[p.first_qp + q];
    worked |= qp.proven;
    qp.dead = true;
    if (!qp.pair) continue;
    if (auto r = modify(qp, to_error(), "ERR"); !r) log_debug("{}", r.error().message);  // a dead device
  }
  if (worked || planned) state.tried.clear();
  if (!planned) state.tried.emplace_back(p.paths[path].local_rail, p.paths[path].remote_rail);
  if (!planned && !is_displaced(p, path)) {
    const bool again = state.home_since_ns != 0 && now - state.home_since_ns < kHomeCountsNs;
    state.probe_pause_ns = again ? std::min(2 * state.probe_pause_ns, kMaxProbePauseNs) : config_.probe_ns;
  }
  give_probe_up(state);
  state.phase = Phase::kDraining;
  state.planned = planned;
  state.since_ns = now;
  state.broke_while_connecting = false;
  state.theirs.reset();
  if (cause && !planned) warn_of_dead_rail(p, path, *cause);
  state.cause = std::move(cause);
  was_in_trouble_ = look_at_events_ = true;
  if (p.goodbye || p.left || p.said_goodbye) return {};
  return tell(
      p, ControlKind::kDown,
      encode(DownMessage{
          {static_cast<uint32_t>(path), state.epoch}, planned, state.cause ? state.cause->message : std::string()}));
}

bool VerbsEndpoint::is_drained(const Peer& p, size_t path) const {
  for (size_t q = path * p.qps_per_path; q < (path + 1) * p.qps_per_path; ++q) {
    const Qp& qp = qps_[p.first_qp + q];
    if (qp.pair && qp.consumed != qp.receive_depth) return false;
  }
  return true;
}

/// The device writes nothing for a queue pair that is destroyed; what it wrote before is in the completion queue.
Result<> VerbsEndpoint::retire(Peer& p, size_t path) {
  PathState& state = p.states[path];
  for (size_t q = path * p.qps_per_path; q < (path + 1) * p.qps_per_path; ++q) qps_[p.first_qp + q].pair = {};
  const auto cq = state.cq ? state.cq : rails_[p.paths[path].local_rail].cq;
  ibv_wc found[kPollBatch];
  for (int n = 1; n > 0;) {
    n = ibv_poll_cq(cq->get(), kPollBatch, found);
    for (int i = 0; i < n; ++i) {
      auto r = handle(found[i]);
      if (!r) return r.error();
      changed_outside_poll_ |= *r;
    }
  }
  keep_carriers(p, path);
  if (state.cq) std::erase_if(polled_, [&](const PolledQueue& queue) { return queue.cq == state.cq; });
  state.cq.reset();
  state.phase = Phase::kGone;
  state.since_ns = now_ns();
  if (!p.goodbye && !p.left && !p.said_goodbye) return tell(p, ControlKind::kHeld, encode(held(p, path)));
  state.phase = Phase::kUp;  // for good: nothing is posted any more
  take_as_sent(p, path);
  changed_outside_poll_ |= settle_goodbye(p);
  return {};
}

HeldMessage VerbsEndpoint::held(const Peer& p, size_t path) const {
  HeldMessage m;
  m.at = {static_cast<uint32_t>(path), p.states[path].epoch};
  m.usable = usable_rails();
  for (uint32_t number = 0; number < p.in.size(); ++number) {
    const InLink& link = *p.in[number];
    HeldMessage::In& in = m.in.emplace_back(HeldMessage::In{number, link.arrived, {}});
    const InPlace& place = in_place_[static_cast<size_t>(&link - in_.data())];
    for (size_t s = 0; s < place.slots.size(); ++s)
      if (place.slots[s].count != 0) in.slots.push_back({static_cast<uint8_t>(s), place.slots[s].seen});
  }
  for (uint32_t number = 0; number < p.out.size(); ++number)
    m.out.push_back({number, out_place_[static_cast<size_t>(p.out[number] - out_.data())].credited});
  return m;
}

Result<> VerbsEndpoint::check_held(const Peer& p, const HeldMessage& m) const {
  if (m.in.size() != p.out.size() || m.out.size() != p.in.size())
    return violation(p, fmt::format("it holds {} and {} links, there are {} and {}", m.in.size(), m.out.size(),
                                    p.out.size(), p.in.size()));
  for (size_t i = 0; i < m.in.size(); ++i) {
    const OutLink& link = *p.out[i];
    bool fits = m.in[i].link == i && m.in[i].arrived <= link.posted;  // other paths may have told of more since
    for (const HeldMessage::Slot& s : m.in[i].slots) fits &= s.number < kMaxPutsInFlight;
    if (!fits) return violation(p, fmt::format("what it holds of link tag {} cannot be", link.id.tag));
  }
  for (size_t i = 0; i < m.out.size(); ++i)
    if (m.out[i].link != i || m.out[i].credited > p.in[i]->released)
      return violation(p, fmt::format("it has credit for {} puts on link tag {}, {} were released", m.out[i].credited,
                                      p.in[i]->id.tag, p.in[i]->released));
  return {};
}

/// Of a part whose last request this is: has the peer got it?
bool VerbsEndpoint::is_held(const HeldMessage& theirs, const Request& last) const {
  const OutLink& link = out_[last.owner];
  const HeldMessage::In& in = theirs.in[out_place_[last.owner].number];
  // The put of this slot among the last ones posted.
  const uint64_t put = link.posted - 1 - (link.posted - 1 - last.slot) % kMaxPutsInFlight;
  if (put < in.arrived) return true;
  const size_t part = unpack(be32toh(last.wr.imm_data)).part;
  return std::any_of(in.slots.begin(), in.slots.end(),
                     [&](const HeldMessage::Slot& s) { return s.number == last.slot && has_bit(s, part); });
}

void VerbsEndpoint::count_part_sent(const Request& last) {
  OutLink& link = out_[last.owner];
  OutPlace& place = out_place_[last.owner];
  --place.parts_left[last.slot];
  while (link.sent < link.posted && place.parts_left[link.sent % kMaxPutsInFlight] == 0) ++link.sent;
  consume(link, place);
  changed_outside_poll_ = true;
}

/// A peer that has left holds what it has given credit for.
void VerbsEndpoint::take_as_sent(Peer& p, size_t path) {
  HeldMessage all;
  for (const OutLink* link : p.out)
    all.in.push_back({0, out_place_[static_cast<size_t>(link - out_.data())].credited, {}});
  for (size_t q = path * p.qps_per_path; q < (path + 1) * p.qps_per_path; ++q) {
    Qp& qp = qps_[p.first_qp + q];
    for (const SendQueue::Unfinished& u : qp.queue.take_unfinished())
      if (u.request.ends_part && is_held(all, u.request)) count_part_sent(u.request);
    qp.owed.clear();
  }
}

/// A credit that was under way counts as sent only if it arrived. Its link is told anew by owe_again().
void VerbsEndpoint::drop_credit(Peer& p, const SendQueue::Unfinished& u) {
  const Immediate i = unpack(be32toh(u.request.wr.imm_data));
  const uint64_t theirs = in_place_[static_cast<size_t>(p.in[i.link] - in_.data())].credited;
  // How far theirs is ahead of this one: a small number, or one below the modulus.
  const bool arrived = u.posted && (theirs - i.count) % kCountModulus < kCountModulus / 2;
  if (!arrived) --p.immediates_sent;
}

void VerbsEndpoint::owe_again(Peer& p, Qp& qp, const HeldMessage& theirs) {
  const auto number = static_cast<size_t>(SendQueue::id_of(qp.receives.front().wr_id));
  qp.owes_more = true;
  for (size_t i = 0; i < p.in.size(); ++i) {
    const auto index = static_cast<size_t>(p.in[i] - in_.data());
    InPlace& place = in_place_[index];
    if (place.credit_qp != number) continue;
    place.credited = theirs.out[i].credited;
    if (place.is_owed || place.credited == p.in[i]->released) continue;
    place.is_owed = true;
    qp.owed.push_back(index);
  }
}

/// The requests of one part, the last of which ends it, for the rails that its path has now.
void VerbsEndpoint::reissue_part(const Qp& qp, std::span<SendQueue::Unfinished> part, size_t number) {
  const Request& last = part.back().request;
  const OutPlace& place = out_place_[last.owner];
  const auto entry = static_cast<size_t>(std::find(place.qps.begin(), place.qps.end(), number) - place.qps.begin());
  TWOHOP_CHECK(entry < place.qps.size(), "queue pair {} is none of link {}'s", number, last.owner);
  const auto tags = std::as_bytes(std::span(tag_memory_));
  uint64_t bytes = 0;
  for (SendQueue::Unfinished& u : part) {
    Request& r = u.request;
    const auto* at = reinterpret_cast<const std::byte*>(r.sge.addr);
    const bool is_tag = r.wr.num_sge > 0 && at >= tags.data() && at < tags.data() + tags.size();
    r.wr.send_flags = is_tag && qp.inline_tags ? unsigned{IBV_SEND_INLINE} : 0;
    r.wr.wr.rdma.rkey = is_tag ? place.tag_keys[entry] : place.inbox_keys[entry];
    if (r.wr.num_sge == 0) continue;
    if (is_tag) {
      r.sge.lkey = rails_[qp.rail].tags->lkey;
      continue;
    }
    const MemoryRegion* region = find_region(rails_[qp.rail], at, r.sge.length);
    TWOHOP_CHECK(region, "rank {}: a put's {} bytes lie in no registered memory", rank_, r.sge.length);
    r.sge.lkey = (*region)->lkey;
    bytes += r.sge.length;
  }
  counters_.rail_bytes[std::min(qp.rail, EndpointCounters::kMaxRails - 1)] += bytes;
  counters_.reissued_puts += part.back().posted;
}

/// What was not finished on the old queue pair and is not at the peer. The new one is there, on the path's new rails.
void VerbsEndpoint::requeue(Peer& p, size_t path, Qp& qp, size_t number) {
  const HeldMessage& theirs = *p.states[path].theirs;
  std::vector<SendQueue::Unfinished> left = qp.queue.take_unfinished();
  owe_again(p, qp, theirs);
  size_t begin = 0;
  for (size_t i = 0; i < left.size(); ++i) {
    const Request& r = left[i].request;
    if (!r.ends_part && !r.is_credit && !r.wants_done) continue;  // more of the part follows
    if (r.is_credit) {
      drop_credit(p, left[i]);
    } else if (r.ends_part && left[i].posted && is_held(theirs, r)) {
      count_part_sent(r);
    } else if (r.ends_part) {
      const auto part = std::span(left).subspan(begin, i + 1 - begin);
      reissue_part(qp, part, number);
      for (const SendQueue::Unfinished& u : part) qp.queue.append_again(u.request);
    }  // else: it marked the end of a drain, and is appended again
    begin = i + 1;
  }
  qp.credits_left = static_cast<uint32_t>(load_of(p, number - p.first_qp).credits);
}

/// The keys of the path's new rails, and its queues.
void VerbsEndpoint::rebuild(Peer& p, size_t path) {
  const size_t rail = p.paths[path].remote_rail, first = p.first_qp + path * p.qps_per_path;
  for (OutLink* link : p.out) {
    OutPlace& place = out_place_[static_cast<size_t>(link - out_.data())];
    for (size_t e = 0; e < place.qps.size(); ++e) {
      if (place.qps[e] < first || place.qps[e] >= first + p.qps_per_path) continue;
      place.inbox_keys[e] = p.keys[place.first_key + rail];
      place.tag_keys[e] = p.rails[rail].row.tag_key;
    }
  }
  for (size_t q = first; q < first + p.qps_per_path; ++q) requeue(p, path, qps_[q], q);
}

}  // namespace twohop::verbs
