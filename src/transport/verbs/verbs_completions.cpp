// What do completions mean? Puts that are sent, parts that have arrived, credits; and the first that failed. Values
// that come from the peer are checked.
#include <bit>

#include "base/check.hpp"
#include "transport/verbs/verbs_endpoint.hpp"

namespace twohop::verbs {

Result<bool> VerbsEndpoint::poll_queue(ibv_cq* cq, size_t rail) {
  constexpr int kMaxPerPoll = 8 * kPollBatch;  // then senders get their turn
  bool changed = false;
  ibv_wc found[kPollBatch];
  for (int total = 0; total < kMaxPerPoll;) {
    const int n = ibv_poll_cq(cq, kPollBatch, found);
    if (n < 0)
      return make_error(twohopSystemError, "polling the completion queue of {} failed ({})", rails_[rail].name, n);
    for (int i = 0; i < n; ++i) {
      auto r = handle(found[i]);
      if (!r) return r;
      changed |= *r;
    }
    total += n;
    if (n < kPollBatch) break;
  }
  return changed;
}

Result<bool> VerbsEndpoint::handle(const ibv_wc& wc) {
  const uint32_t id = SendQueue::id_of(wc.wr_id);
  TWOHOP_CHECK(id < qps_.size(), "completion for queue pair {} of {}", id, qps_.size());
  Qp& qp = qps_[id];
  if (wc.status != IBV_WC_SUCCESS) return failed(qp, wc);
  qp.proven = true;
  if (!SendQueue::is_receive(wc.wr_id)) return finish_sends(qp, wc.wr_id);
  ++qp.consumed;
  if (auto r = replenish(qp); !r) return r.error();
  if (wc.opcode != IBV_WC_RECV_RDMA_WITH_IMM)
    return violation(peers_[qp.peer], fmt::format("a completion of opcode {} on its queue pair, expected writes with "
                                                  "immediate only",
                                                  static_cast<int>(wc.opcode)));
  counters_.bytes_received += wc.byte_len;
  return receive(qp, be32toh(wc.imm_data));
}

/// `consumed` never passes `sent`: a source is in use until the device says otherwise.
void VerbsEndpoint::consume(OutLink& link, const OutPlace& place) {
  link.consumed = std::min(place.credited, link.sent);
}

Result<bool> VerbsEndpoint::finish_sends(Qp& qp, uint64_t wr_id) {
  bool changed = false;
  qp.queue.finish(wr_id, [&](const Request& r) {
    qp.credits_left += r.is_credit;
    if (!r.ends_part) return;
    OutLink& link = out_[r.owner];
    OutPlace& place = out_place_[r.owner];
    --place.parts_left[r.slot];
    while (link.sent < link.posted && place.parts_left[link.sent % kMaxPutsInFlight] == 0) {
      ++link.sent;
      changed = true;
    }
    consume(link, place);
  });
  return changed;
}

Result<bool> VerbsEndpoint::receive(Qp& qp, uint32_t immediate) {
  Peer& p = peers_[qp.peer];
  ++p.immediates_received;
  const Immediate i = unpack(immediate);
  auto r = i.credit ? receive_credit(p, i) : receive_put(p, i);
  if (r && p.goodbye) *r |= settle_goodbye(p);
  return r;
}

Result<bool> VerbsEndpoint::receive_credit(Peer& p, const Immediate& i) {
  if (i.link >= p.out.size())
    return violation(p, fmt::format("credit for link {}, this rank has {} links to it", i.link, p.out.size()));
  OutLink& link = *p.out[i.link];
  OutPlace& place = out_place_[static_cast<size_t>(&link - out_.data())];
  const uint64_t fresh = (i.count - place.credited) % kCountModulus;
  if (fresh == 0 || fresh > link.posted - place.credited)
    return violation(p, fmt::format("credit of {} (modulo {}) on link tag {}, expected {} to {}", i.count,
                                    kCountModulus, link.id.tag, place.credited + 1, link.posted));
  place.credited += fresh;
  consume(link, place);
  return true;
}

Result<bool> VerbsEndpoint::receive_put(Peer& p, const Immediate& i) {
  if (i.link >= p.in.size())
    return violation(p, fmt::format("put on link {}, it has {} links to this rank", i.link, p.in.size()));
  InLink& link = *p.in[i.link];
  const auto index = static_cast<size_t>(&link - in_.data());
  InPlace& place = in_place_[index];
  // How far ahead of what has arrived: puts on different queue pairs may overtake each other.
  const uint64_t ahead = (i.slot - link.arrived) % kMaxPutsInFlight;
  if (link.arrived + ahead >= link.released + link.max_in_flight)
    return violation(p, fmt::format("put into slot {} of link tag {} with {} puts unreleased, the limit is {}", i.slot,
                                    link.id.tag, link.arrived - link.released, link.max_in_flight));
  InPlace::Slot& slot = place.slots[i.slot];
  const uint64_t bit = uint64_t{1} << (i.part % 64);
  if ((slot.seen[i.part / 64] & bit) != 0)
    return violation(p, fmt::format("part {} of slot {} of link tag {} twice", i.part, i.slot, link.id.tag));
  slot.seen[i.part / 64] |= bit;
  ++slot.count;
  slot.tagged |= i.tagged;
  if (i.last) slot.parts = static_cast<uint8_t>(i.part + 1);
  return count_arrivals(index);
}

/// Counts the puts whose parts are all here, in order.
bool VerbsEndpoint::count_arrivals(size_t in_link) {
  InLink& link = in_[in_link];
  InPlace& place = in_place_[in_link];
  bool changed = false;
  for (;;) {
    const size_t number = link.arrived % kMaxPutsInFlight;
    InPlace::Slot& slot = place.slots[number];
    if (slot.parts == 0 || slot.count < slot.parts) return changed;
    if (slot.tagged) {
      const CallTag tag{le64toh(place.tags[number].call), le64toh(place.tags[number].signature)};
      link.tags[tag.call % link.tags.size()] = tag;
      counters_.bytes_received += sizeof(TagSlot);
    }
    slot = {};
    ++link.arrived;
    changed = true;
  }
}

/// The first failed completion of a queue pair is the cause; those that follow only say that it is broken.
Result<bool> VerbsEndpoint::failed(Qp& qp, const ibv_wc& wc) {
  Peer& p = peers_[qp.peer];
  if (SendQueue::is_receive(wc.wr_id)) ++qp.consumed;
  const size_t path = path_number(qp);
  PathState& state = p.states[path];
  if (qp.dead) {
    ++flushed_completions_;
    if (state.phase == PathState::Phase::kConnecting) state.broke_while_connecting = true;
    return false;
  }
  if (p.left || p.said_goodbye) {  // it may be gone
    qp.dead = true;
    return false;
  }
  // A peer that ended has closed its socket too, and that says more. It may also have taken the path down.
  auto r = serve_socket(p);
  if (!r || qp.dead) return r;
  if (p.left || p.goodbye || (is_of_the_rail(wc.status) && another_way(p, path))) {
    if (auto down = take_down(p, path, describe_failure(qp, wc.status, wc.vendor_err, false), false); !down)
      return down.error();
    return *r;
  }
  qp.dead = true;
  return describe_failure(qp, wc.status, wc.vendor_err, true);
}

}  // namespace twohop::verbs
