// See network_hop.hpp.
#include "collectives/exec/loop/network_hop.hpp"

#include <utility>

namespace twohop {

NetworkHop::NetworkHop(Endpoint& endpoint, PutQueueReader queue, LoopLinkWords* out_words, size_t out_count,
                       LoopLinkWords* in_words, size_t in_count, std::function<Result<>()> flush)
    : endpoint_(endpoint),
      queue_(queue),
      out_words_(out_words),
      in_words_(in_words),
      out_count_(out_count),
      in_count_(in_count),
      flush_(std::move(flush)),
      arrived_(in_count) {}

Result<bool> NetworkHop::progress() {
  const bool took = take_requests();
  if (auto flushed = endpoint_.flush(); !flushed) return flushed.error();
  auto polled = endpoint_.poll();
  if (!polled) return polled.error();
  if (!took && !*polled) return false;
  for (size_t i = 0; i < out_count_; ++i) publish_out(i);
  if (arrivals_wait()) {
    if (flush_)
      if (auto done = flush_(); !done) return done.error();
    for (size_t i = 0; i < in_count_; ++i) publish_in(i);
  }
  return true;
}

bool NetworkHop::take_requests() {
  bool some = false;
  while (const PutEntry* entry = queue_.front()) {
    some = true;
    if (entry->request == PutRequest::kRelease) {
      endpoint_.release(entry->link);
    } else {
      PutRun runs[2];
      for (uint32_t i = 0; i < entry->pieces; ++i)
        runs[i] = {entry->piece[i].source, entry->piece[i].inbox_offset, entry->piece[i].bytes};
      endpoint_.put(entry->link, {entry->call, entry->signature}, {runs, entry->pieces});
    }
    queue_.pop();
  }
  return some;
}

void NetworkHop::publish_out(size_t link) {
  const OutLink& out = endpoint_.out(link);
  store_release(&out_words_[link].sent, out.sent);
  store_release(&out_words_[link].consumed, out.consumed);
}

bool NetworkHop::arrivals_wait() const {
  for (size_t i = 0; i < in_count_; ++i)
    if (endpoint_.in(i).arrived != arrived_[i]) return true;
  return false;
}

void NetworkHop::publish_in(size_t link) {
  const InLink& in = endpoint_.in(link);
  if (in.arrived == arrived_[link]) return;
  for (size_t t = 0; t < in.tags.size(); ++t) {
    store_relaxed(&in_words_[link].tags[t].signature, in.tags[t].signature);
    store_release(&in_words_[link].tags[t].call, in.tags[t].call);
  }
  arrived_[link] = in.arrived;
  store_release(&in_words_[link].arrived, in.arrived);
}

}  // namespace twohop
