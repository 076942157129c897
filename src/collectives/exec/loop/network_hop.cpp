// See network_hop.hpp.
#include "collectives/exec/loop/network_hop.hpp"

#include <algorithm>
#include <span>
#include <utility>

namespace twohop {
namespace {

bool is_copied(const PutEntry::Piece& piece) {
  return piece.copy_to != nullptr && piece.bytes > 0;
}
std::span<const PutEntry::Piece> pieces_of(const PutEntry& entry) {
  if (entry.request == PutRequest::kRelease) return {};
  return {entry.piece, entry.pieces};
}
uint64_t copies_of(const PutEntry& entry) {
  const auto pieces = pieces_of(entry);
  return static_cast<uint64_t>(std::count_if(pieces.begin(), pieces.end(), is_copied));
}

}  // namespace

NetworkHop::NetworkHop(Parts parts) : parts_(std::move(parts)), arrived_(parts_.in_count) {}

NetworkHop::~NetworkHop() {
  end_copies();
}

void NetworkHop::end_copies() {
  if (!parts_.engine) return;
  parts_.engine->wait();
  store_release(&parts_.report->copies_ended, 1);
}

Result<bool> NetworkHop::progress() {
  const auto took = take_requests();
  if (!took || !parts_.endpoint) return took;
  return poll_endpoint(*took);
}

Result<bool> NetworkHop::poll_endpoint(bool took) {
  if (auto flushed = parts_.endpoint->flush(); !flushed) return flushed.error();
  auto polled = parts_.endpoint->poll();
  if (!polled) return polled.error();
  if (!took && !*polled) return false;
  for (size_t i = 0; i < parts_.out_count; ++i) publish_out(i);
  if (arrivals_wait()) {
    if (parts_.flush)
      if (auto done = parts_.flush(); !done) return done.error();
    for (size_t i = 0; i < parts_.in_count; ++i) publish_in(i);
  }
  return true;
}

Result<bool> NetworkHop::take_requests() {
  bool some = false;
  uint64_t completed = 0;
  if (parts_.engine) {
    auto started = start_copies();
    if (!started) return started;
    some = *started;
    auto done = parts_.engine->completed();
    if (!done) return failed(done.error());
    completed = *done;
  }
  while (const PutEntry* entry = parts_.queue.front()) {
    const uint64_t needed = copies_ + copies_of(*entry);
    if (needed > completed && needed != copies_) break;
    copies_ = needed;
    if (looked_ahead_ > 0) --looked_ahead_;
    some = true;
    serve(*entry);
    parts_.queue.pop();
  }
  return some;
}

Result<bool> NetworkHop::start_copies() {
  bool some = false;
  for (; const PutEntry* entry = parts_.queue.behind_front(looked_ahead_); ++looked_ahead_)
    for (const PutEntry::Piece& p : pieces_of(*entry)) {
      if (!is_copied(p)) continue;
      some = true;
      if (auto started = parts_.engine->copy(p.copy_to, p.source, p.bytes); !started) return failed(started.error());
    }
  return some;
}

/// No call of the communicator can go on without it.
Error NetworkHop::failed(Error copy) const {
  copy.message = fmt::format("rank {}: {}", parts_.rank, copy.message);
  copy.scope = Scope::kCommunicator;
  copy.rank = parts_.rank;
  return copy;
}

void NetworkHop::serve(const PutEntry& entry) {
  if (entry.request == PutRequest::kRelease) parts_.endpoint->release(entry.link);
  if (entry.request != PutRequest::kPut) return;
  PutRun runs[2];
  for (uint32_t i = 0; i < entry.pieces; ++i) {
    const PutEntry::Piece& p = entry.piece[i];
    runs[i] = {p.copy_to ? p.copy_to : p.source, p.inbox_offset, p.bytes};
  }
  parts_.endpoint->put(entry.link, {entry.call, entry.signature}, {runs, entry.pieces});
}

void NetworkHop::publish_out(size_t link) {
  const OutLink& out = parts_.endpoint->out(link);
  store_release(&parts_.out_words[link].sent, out.sent);
  store_release(&parts_.out_words[link].consumed, out.consumed);
}

bool NetworkHop::arrivals_wait() const {
  for (size_t i = 0; i < parts_.in_count; ++i)
    if (parts_.endpoint->in(i).arrived != arrived_[i]) return true;
  return false;
}

void NetworkHop::publish_in(size_t link) {
  const InLink& in = parts_.endpoint->in(link);
  if (in.arrived == arrived_[link]) return;
  for (size_t t = 0; t < in.tags.size(); ++t) {
    store_relaxed(&parts_.in_words[link].tags[t].signature, in.tags[t].signature);
    store_release(&parts_.in_words[link].tags[t].call, in.tags[t].call);
  }
  arrived_[link] = in.arrived;
  store_release(&parts_.in_words[link].arrived, in.arrived);
}

}  // namespace twohop
