// One data connection: a socket that carries all links of both directions between two ranks on one channel.
//
// Puts go one way, credits for them come back the other way. Everything is allocated by the constructor. The
// connection knows its socket only as a non-blocking stream: who connected it, and when to serve it, is the endpoint's.
#pragma once

#include <sys/uio.h>

#include <array>
#include <string>
#include <vector>

#include "transport/endpoint.hpp"
#include "transport/tcp/tcp_wire.hpp"

namespace twohop::tcp {

/// At most this much is moved per direction by one call, so that no socket starves the others.
constexpr size_t kBytesPerTurn = 1 << 20;

/// The pieces of one sendmsg, in an order that is fixed once composed; empty when all bytes are sent.
class SendBatch {
 public:
  static constexpr size_t kMaxPieces = 96;
  static constexpr size_t kMaxBytes = 512 << 10;  // past this no put is added: fresh credits wait for at most a batch

  bool empty() const { return first_ == end_; }
  bool full() const { return end_ + 1 + kMaxRuns > kMaxPieces || bytes_ >= kMaxBytes; }
  void clear() { first_ = end_ = bytes_ = 0; }
  void add(const void* data, size_t bytes);
  /// The piece added last ends a put of this link.
  void ends_put(OutLink* link) { put_ends_[end_ - 1] = link; }
  std::span<iovec> unsent() { return {pieces_.data() + first_, end_ - first_}; }
  /// Marks `bytes` as sent and counts the puts that they complete. True if a put was completed.
  bool advance(size_t bytes);

 private:
  std::array<iovec, kMaxPieces> pieces_;
  std::array<OutLink*, kMaxPieces> put_ends_;
  size_t first_ = 0, end_ = 0, bytes_ = 0;
};

class Connection {
 public:
  /// `address` is the peer's, for messages. Links stay where they are for the life of the connection.
  Connection(Fd fd, int peer, uint16_t channel, std::string address, std::vector<OutLink*> out, std::vector<InLink*> in,
             EndpointCounters* counters);

  int fd() const { return fd_.get(); }
  int peer() const { return peer_; }
  std::string name() const;  // "rank 3 (10.0.0.3:4711, channel 0)"
  const std::vector<OutLink*>& out() const { return out_; }

  void put(OutLink& link, const CallTag& tag, std::span<const PutRun> runs);
  /// Counts a release of this connection's in link number `in_index`.
  void release(size_t in_index);
  /// No put or credit may follow. From now on the peer may close without a word.
  void say_goodbye() { goodbye_due_ = said_goodbye_ = true; }
  bool has_output() const { return !batch_.empty() || next_put_ != end_put_ || !due_.empty() || goodbye_due_; }

  /// Sends what is queued until the kernel takes no more or the turn is over. True if a link's count changed.
  Result<bool> send();
  /// Receives what is there until nothing is left or the turn is over. True if a link's count changed.
  Result<bool> receive();
  /// The peer left in good order: it will send nothing more and wants nothing more.
  bool peer_left() const { return peer_left_; }

  // For the endpoint's bookkeeping only.
  bool dirty = false;           // has something appended since the last flush
  uint32_t epoll_interest = 0;  // events registered

 private:
  struct QueuedPut {
    PutFrame frame;
    OutLink* link;
    iovec runs[kMaxRuns];
  };
  /// Where the bytes of the put being received still have to go.
  struct Landing {
    InLink* link = nullptr;  // null: between frames
    iovec runs[kMaxRuns];
    CallTag tag;
  };

  void compose();
  void compose_credits();
  Result<bool> accept_credit(const FrameHeader& h);
  Result<> begin_put(const PutFrame& f);
  void finish_put();
  Result<bool> accept_goodbye(const FrameHeader& h);
  Result<bool> unknown_kind(const FrameHeader& h) const;
  Result<bool> parse();
  Result<size_t> parse_frame(bool* changed);
  size_t receive_pieces(std::span<iovec> pieces, size_t turn_left);
  void absorb(size_t bytes);
  bool landing_full() const { return landing_.runs[0].iov_len + landing_.runs[1].iov_len == 0; }
  Error violation(const std::string& what) const;
  Error lost(int sys_errno, const char* doing) const;
  Error closed_early() const;
  Error left_early() const;

  Fd fd_;
  int peer_;
  uint16_t channel_;
  std::string address_;
  std::vector<OutLink*> out_;
  std::vector<InLink*> in_;
  EndpointCounters* counters_;

  // Output. The ring holds every put from put() until it is sent; a put leaves at the latest when it is consumed.
  std::vector<QueuedPut> ring_;
  uint64_t next_put_ = 0, end_put_ = 0;  // not yet in a batch: [next_put_, end_put_), at index % ring_.size()
  std::vector<size_t> due_;              // in links whose credit is to be sent
  std::vector<bool> is_due_;
  std::vector<FrameHeader> credits_;  // of the batch being sent
  FrameHeader goodbye_;
  bool goodbye_due_ = false, said_goodbye_ = false;
  SendBatch batch_;

  // Input. Small frames are read many at a time into staging_; the bytes of puts go straight to their inbox.
  std::vector<std::byte> staging_;
  size_t staged_begin_ = 0, staged_end_ = 0;
  size_t read_ahead_;
  Landing landing_{};
  bool peer_left_ = false;
};

}  // namespace twohop::tcp
