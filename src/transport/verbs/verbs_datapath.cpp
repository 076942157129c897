// How the verbs endpoint sends: puts become work requests, releases become credits, and both go out in batches.
// Nothing here allocates, locks or logs.
#include <algorithm>
#include <cstring>

#include "base/check.hpp"
#include "transport/verbs/verbs_endpoint.hpp"

namespace twohop::verbs {
namespace {

// Polls that find nothing before owed credits go out although few slots are free. Nobody waits for them: a sender
// stalls for want of the others. Before a sleep and at the end of a call they go at once.
constexpr uint32_t kQuietPolls = 64;
constexpr uint32_t kPollsPerLookAtEvents = 256;

}  // namespace

void VerbsEndpoint::mark_dirty(size_t qp) {
  if (qps_[qp].dirty) return;
  qps_[qp].dirty = true;
  dirty_.push_back(qp);
}

/// Local address and key of a request's bytes.
void VerbsEndpoint::fill_source(Request& r, const Qp& qp, const void* source, uint64_t bytes) {
  const MemoryRegion* region = find_region(rails_[qp.rail], source, bytes);
  TWOHOP_CHECK(region, "rank {}: a put's {} bytes lie in no registered memory", rank_, bytes);
  r.sge = {reinterpret_cast<uintptr_t>(source), static_cast<uint32_t>(bytes), (*region)->lkey};
  r.wr.num_sge = 1;
}

/// The tag goes into the slot's place at the receiver, on the queue pair of the put's first part and before it.
void VerbsEndpoint::append_tag(OutPlace& place, size_t qp_entry, size_t slot, const CallTag& tag) {
  place.tags[slot] = {htole64(tag.call), htole64(tag.signature)};
  Qp& qp = qps_[place.qps[qp_entry]];
  Request& r = qp.queue.append();
  r.wr.opcode = IBV_WR_RDMA_WRITE;
  r.wr.wr.rdma = {place.tag_address + slot * sizeof(TagSlot), place.tag_keys[qp_entry]};
  r.wr.num_sge = 1;
  r.sge = {reinterpret_cast<uintptr_t>(&place.tags[slot]), sizeof(TagSlot), rails_[qp.rail].tags->lkey};
  if (qp.inline_tags) r.wr.send_flags = IBV_SEND_INLINE;
  counters_.bytes_sent += sizeof(TagSlot);
}

/// The bytes [begin, end) of a put's runs laid end to end, ending in the immediate.
void VerbsEndpoint::append_part(OutPlace& place, OutLink& link, std::span<const PutRun> runs, size_t qp_entry,
                                Immediate immediate, uint64_t begin, uint64_t end) {
  Qp& qp = qps_[place.qps[qp_entry]];
  uint64_t at = 0;
  for (const PutRun& run : runs) {
    const uint64_t from = std::max(at, begin), to = std::min(at + run.bytes, end);
    if (from < to) {
      Request& r = qp.queue.append();
      fill_source(r, qp, static_cast<const std::byte*>(run.source) + (from - at), to - from);
      r.wr.wr.rdma = {place.inbox_address + run.inbox_offset + (from - at), place.inbox_keys[qp_entry]};
      r.wr.opcode = to == end ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE;
    }
    at += run.bytes;
  }
  if (begin == end) {  // a message without bytes
    Request& r = qp.queue.append();
    r.wr.wr.rdma = {place.inbox_address, place.inbox_keys[qp_entry]};
    r.wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  }
  Request& last = qp.queue.last();
  last.wr.imm_data = htobe32(pack(immediate));
  last.owner = static_cast<uint32_t>(&link - out_.data());
  last.slot = immediate.slot;
  last.ends_part = last.wants_done = true;
  ++peers_[qp.peer].immediates_sent;
  counters_.bytes_sent += end - begin;
  counters_.rail_bytes[std::min(qp.rail, EndpointCounters::kMaxRails - 1)] += end - begin;
  mark_dirty(place.qps[qp_entry]);
}

void VerbsEndpoint::put(size_t out_link, const CallTag& tag, std::span<const PutRun> runs) {
  TWOHOP_CHECK(out_link < out_.size(), "out link {} of {}", out_link, out_.size());
  OutLink& link = out_[out_link];
  OutPlace& place = out_place_[out_link];
  TWOHOP_CHECK(link.posted - link.consumed < link.max_in_flight,
               "rank {}: link tag {} to rank {}: posted {}, consumed {}", rank_, link.id.tag, link.id.dst, link.posted,
               link.consumed);
  uint64_t bytes = 0;
  for (const PutRun& run : runs) {
    TWOHOP_CHECK(run.bytes <= link.inbox_bytes && run.inbox_offset <= link.inbox_bytes - run.bytes,
                 "rank {}: link tag {} to rank {}: run of {} bytes at {}, inbox of {}", rank_, link.id.tag, link.id.dst,
                 run.bytes, run.inbox_offset, link.inbox_bytes);
    bytes += run.bytes;
  }
  const size_t slot = link.posted % kMaxPutsInFlight;
  const size_t parts = config_.split ? parts_of(bytes, place.qps.size()) : 1;
  const size_t first = config_.split ? 0 : link.posted % place.qps.size();
  const bool tagged = !place.last_tag || place.last_tag->call != tag.call || place.last_tag->signature != tag.signature;
  if (tagged) {
    append_tag(place, first, slot, tag);
    place.last_tag = tag;
  }
  place.parts_left[slot] = static_cast<uint8_t>(parts);
  for (size_t part = 0; part < parts; ++part) {
    const Immediate immediate{.link = place.number,
                              .slot = static_cast<uint8_t>(slot),
                              .part = static_cast<uint8_t>(part),
                              .last = part + 1 == parts,
                              .tagged = tagged && part == 0};
    append_part(place, link, runs, first + part, immediate, part_begin(bytes, parts, part),
                part_begin(bytes, parts, part + 1));
  }
  ++link.posted;
  ++counters_.puts;
  appended_ = true;
}

void VerbsEndpoint::release(size_t in_link) {
  TWOHOP_CHECK(in_link < in_.size(), "in link {} of {}", in_link, in_.size());
  InLink& link = in_[in_link];
  TWOHOP_CHECK(link.released < link.arrived, "rank {}: link tag {} from rank {}: release {} of {} arrived", rank_,
               link.id.tag, link.id.src, link.released + 1, link.arrived);
  ++link.released;
  appended_ = true;
  InPlace& place = in_place_[in_link];
  Qp& qp = qps_[place.credit_qp];
  qp.owes_more = true;
  if (place.is_owed) return;
  place.is_owed = true;
  qp.owed.push_back(in_link);
  mark_dirty(place.credit_qp);
}

/// Whether the peer may be waiting for a link's credit: all slots of a call are free again (two calls share an inbox,
/// so that is half of what may be in flight). Or so much is owed on all links together that it had better be told: half
/// of what they hold, K/2 of the design, counted over the queue pair, since its other links keep the wire busy
/// meanwhile.
bool VerbsEndpoint::credits_due(const Qp& qp) const {
  uint64_t owed = 0;
  for (size_t in_link : qp.owed) {
    const uint64_t slots = std::max(1u, in_[in_link].max_in_flight / 2);
    const uint64_t free = in_[in_link].released - in_place_[in_link].credited;
    if (free >= slots) return true;
    owed += free;
  }
  return owed >= qp.credit_threshold;
}

/// Owed credits become work requests when one of them is due. They ride along for nothing when the queue pair has
/// something to post anyway.
void VerbsEndpoint::append_credits(Qp& qp, bool all) {
  const bool more = std::exchange(qp.owes_more, false);  // polls that have nothing new do not ask again
  if (!all && qp.queue.empty() && !(more && credits_due(qp))) return;
  size_t kept = 0;
  for (size_t in_link : qp.owed) {
    InLink& link = in_[in_link];
    InPlace& place = in_place_[in_link];
    if (qp.credits_left == 0) {
      qp.owed[kept++] = in_link;
      continue;
    }
    Request& r = qp.queue.append();
    r.wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
    r.wr.imm_data = htobe32(
        pack({.credit = true, .link = place.number, .count = static_cast<uint32_t>(link.released % kCountModulus)}));
    r.is_credit = true;
    --qp.credits_left;
    place.credited = link.released;
    place.is_owed = false;
    ++peers_[qp.peer].immediates_sent;
    ++counters_.credits;
  }
  qp.owed.resize(kept);
  qp.owes_more = kept > 0;
}

/// Has anything been put to this peer that it has not consumed?
bool VerbsEndpoint::needs_more(const Peer& p) const {
  return std::any_of(p.out.begin(), p.out.end(), [](const OutLink* l) { return l->consumed != l->posted; });
}

Result<> VerbsEndpoint::post(Qp& qp) {
  const Peer& p = peers_[qp.peer];
  if (p.left) return needs_more(p) ? Result<>(left_early(p)) : Result<>();
  if (qp.dead) return {};  // its failed completion is on the way
  if (const int failed = qp.queue.post()) {
    Error e = system_error(failed, "{}: cannot post to the send queue", describe(qp));
    e.scope = Scope::kPeer;
    e.rank = p.rank;
    return e;
  }
  return {};
}

/// Posts what is ready; `idle`: also what would rather wait for company.
Result<> VerbsEndpoint::push(bool idle) {
  size_t kept = 0;
  for (size_t i = 0; i < dirty_.size(); ++i) {
    Qp& qp = qps_[dirty_[i]];
    const bool left = peers_[qp.peer].left;
    if (!idle && !left && qp.queue.empty() && !qp.owes_more) {  // owes what is not due yet, as most polls find it
      dirty_[kept++] = dirty_[i];
      continue;
    }
    if (!left) append_credits(qp, idle);  // who has left needs none: all it put was consumed, as it had been told
    if (auto r = post(qp); !r) return r;
    qp.dirty = !left && (!qp.queue.empty() || !qp.owed.empty());
    if (qp.dirty) dirty_[kept++] = dirty_[i];
  }
  dirty_.resize(kept);
  return {};
}

void VerbsEndpoint::limit_batch(uint32_t requests) {
  const uint32_t batch = std::min(requests, config_.rules.batch);
  if (batch == batch_) return;
  batch_ = batch;
  for (Qp& qp : qps_) qp.queue.limit_batch(batch);
}

Result<> VerbsEndpoint::flush() {
  if (dead_) return *dead_;
  if (!appended_) return {};
  appended_ = false;
  quiet_polls_ = 0;
  ++counters_.flushes;
  if (auto r = push(false); !r) return die(r.error());
  return {};
}

Result<bool> VerbsEndpoint::poll() {
  if (dead_) return *dead_;
  bool changed = std::exchange(changed_outside_poll_, false);
  for (const ibv_wc& wc : early_) {
    auto r = handle(wc);
    if (!r) return die(r.error());
    changed |= *r;
  }
  early_.clear();
  for (size_t q = 0; q < polled_.size(); ++q) {  // a message may add one
    auto r = poll_queue(polled_[q].cq->get(), polled_[q].rail);
    if (!r) return die(r.error());
    changed |= *r;
  }
  quiet_polls_ = changed ? 0 : quiet_polls_ + 1;
  if (look_at_events_ || quiet_polls_ % kPollsPerLookAtEvents == kPollsPerLookAtEvents - 1) {
    look_at_events_ = false;
    auto r = serve_events();
    if (!r) return die(r.error());
    changed |= *r;
  }
  // Batches held while the wire was busy, and credits that found no company.
  if (!dirty_.empty())
    if (auto r = push(std::exchange(asked_for_output_, false) || quiet_polls_ >= kQuietPolls); !r)
      return die(r.error());
  return changed;
}

/// Asked when the caller has nothing else to do: what waits for company goes out at the next poll.
bool VerbsEndpoint::output_pending() const {
  const bool pending = appended_ || !dirty_.empty();
  asked_for_output_ = pending;
  return pending;
}

/// Arms the completion channels, then looks once more: what came before the arming makes no event.
void VerbsEndpoint::wait_for(std::vector<pollfd>& fds) {
  if (peers_.empty()) return;
  look_at_events_ = true;
  fds.push_back({epoll_.get(), POLLIN, 0});
  if (dead_) return;
  if (auto r = push(true); !r) {
    die(r.error());  // the next poll() returns it
    fds.push_back({ready_.get(), POLLIN, 0});
    return;
  }
  bool some = !early_.empty();
  for (Rail& rail : rails_) drain_channel(rail);
  for (PolledQueue& queue : polled_) {
    if (!queue.armed && ibv_req_notify_cq(queue.cq->get(), 0) == 0) queue.armed = true;
    ibv_wc found[4];
    const int n =
        ibv_poll_cq(queue.cq->get(), static_cast<int>(std::min<size_t>(4, early_.capacity() - early_.size())), found);
    for (int i = 0; i < n; ++i) early_.push_back(found[i]);
    some |= n != 0;
  }
  if (some) fds.push_back({ready_.get(), POLLIN, 0});
}

}  // namespace twohop::verbs
