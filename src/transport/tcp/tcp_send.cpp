// How a connection sends: the queue of puts, the credits due, and the batches made of them. Nothing is received here.
#include <sys/socket.h>

#include <cerrno>

#include "base/check.hpp"
#include "transport/tcp/tcp_connection.hpp"

namespace twohop::tcp {

void SendBatch::add(const void* data, size_t bytes) {
  pieces_[end_] = {const_cast<void*>(data), bytes};  // iovec has no const; sendmsg only reads
  put_ends_[end_] = nullptr;
  bytes_ += bytes;
  ++end_;
}

bool SendBatch::advance(size_t bytes) {
  bool completed = false;
  bytes_ -= bytes;
  while (first_ != end_ && bytes >= pieces_[first_].iov_len) {
    bytes -= pieces_[first_].iov_len;
    if (OutLink* link = put_ends_[first_]) {
      ++link->sent;
      completed = true;
    }
    ++first_;
  }
  if (bytes > 0) {
    iovec& piece = pieces_[first_];
    piece = {static_cast<std::byte*>(piece.iov_base) + bytes, piece.iov_len - bytes};
  }
  return completed;
}

void Connection::put(OutLink& link, const CallTag& tag, std::span<const PutRun> runs) {
  TWOHOP_CHECK(link.posted - link.consumed < kMaxPutsInFlight, "{}: link tag {}: posted {}, consumed {}", name(),
               link.id.tag, link.posted, link.consumed);
  TWOHOP_CHECK(runs.size() <= kMaxRuns, "{} runs", runs.size());
  QueuedPut& q = ring_[end_put_ % ring_.size()];
  q = {};
  q.link = &link;
  q.frame.header = encode_header(FrameKind::kPut, link.id.tag, ++link.posted);
  q.frame.call = htole64(tag.call);
  q.frame.signature = htole64(tag.signature);
  for (size_t i = 0; i < runs.size(); ++i) {
    const PutRun& run = runs[i];
    TWOHOP_CHECK(run.bytes <= link.inbox_bytes && run.inbox_offset <= link.inbox_bytes - run.bytes,
                 "{}: link tag {}: run of {} bytes at {}, inbox of {}", name(), link.id.tag, run.bytes,
                 run.inbox_offset, link.inbox_bytes);
    q.frame.runs[i] = {htole64(run.inbox_offset), htole64(run.bytes)};
    q.runs[i] = {const_cast<void*>(run.source), run.bytes};
  }
  ++end_put_;
  ++counters_->puts;
}

void Connection::release(size_t in_index) {
  InLink& link = *in_[in_index];
  TWOHOP_CHECK(link.released < link.arrived, "{}: link tag {}: release {} of {} arrived", name(), link.id.tag,
               link.released + 1, link.arrived);
  ++link.released;
  if (is_due_[in_index]) return;
  is_due_[in_index] = true;
  due_.push_back(in_index);
}

/// Credits go first: they are small, and the peer may be idle for want of them. The newest count is all that counts.
void Connection::compose_credits() {
  credits_.clear();
  for (size_t i : due_) {
    credits_.push_back(encode_header(FrameKind::kCredit, in_[i]->id.tag, in_[i]->released));
    is_due_[i] = false;
  }
  due_.clear();
  if (credits_.empty()) return;
  counters_->credits += credits_.size();
  batch_.add(credits_.data(), credits_.size() * sizeof(FrameHeader));
}

void Connection::compose() {
  batch_.clear();
  compose_credits();
  while (next_put_ != end_put_ && !batch_.full()) {
    const QueuedPut& q = ring_[next_put_++ % ring_.size()];
    batch_.add(&q.frame, sizeof q.frame);
    for (const iovec& run : q.runs)
      if (run.iov_len > 0) batch_.add(run.iov_base, run.iov_len);
    batch_.ends_put(q.link);
  }
  if (goodbye_due_ && next_put_ == end_put_ && !batch_.full()) {
    goodbye_ = encode_header(FrameKind::kGoodbye, 0, 0);
    batch_.add(&goodbye_, sizeof goodbye_);
    goodbye_due_ = false;
  }
}

Result<bool> Connection::send() {
  if (peer_left_) return left_early();
  bool changed = false;
  for (size_t turn_bytes = 0; turn_bytes < kBytesPerTurn;) {
    if (batch_.empty()) compose();
    if (batch_.empty()) break;
    msghdr message{};
    message.msg_iov = batch_.unsent().data();
    message.msg_iovlen = batch_.unsent().size();
    // MSG_EOR: the kernel must not hold back a small batch until what was sent before it has left the host
    // (autocorking). With a pacing congestion control (BBR) that lasted for tens of milliseconds now and then.
    const ssize_t n = ::sendmsg(fd_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT | MSG_EOR);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    if (n < 0) return lost(errno, "sending to");
    counters_->bytes_sent += static_cast<size_t>(n);
    turn_bytes += static_cast<size_t>(n);
    changed |= batch_.advance(static_cast<size_t>(n));
    if (!batch_.empty()) break;  // a short count: the kernel's buffer is full
  }
  return changed;
}

}  // namespace twohop::tcp
