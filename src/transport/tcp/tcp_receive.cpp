// How a connection receives: frames are checked field by field, payload lands in the inbox. Nothing is sent here.
//
// Whatever the peer sends, nothing is written outside the inbox of a known link: a frame that breaks a rule is an error
// that names the peer, the rule and the value.
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "transport/tcp/tcp_connection.hpp"

namespace twohop::tcp {
namespace {

// Many small frames cost one recv. After a large put the next is probably large too: then only its header is read
// ahead, since what is staged has to be copied once more.
constexpr size_t kStagingBytes = 16 << 10;
constexpr size_t kLargePutBytes = 16 << 10;
constexpr size_t kHeadersOnlyBytes = 2 * sizeof(PutFrame);
static_assert(kHeadersOnlyBytes >= 2 * sizeof(PutFrame), "a staged part of a header plus a whole one must fit");

template <class Frame>
Frame peek(const std::byte* at) {
  Frame f;
  std::memcpy(&f, at, sizeof f);
  return decode(f);
}

iovec rest(iovec v, size_t done) {
  return {static_cast<std::byte*>(v.iov_base) + done, v.iov_len - done};
}

}  // namespace

Connection::Connection(Fd fd, int peer, uint16_t channel, std::string address, std::vector<OutLink*> out,
                       std::vector<InLink*> in, EndpointCounters* counters)
    : fd_(std::move(fd)),
      peer_(peer),
      channel_(channel),
      address_(std::move(address)),
      out_(std::move(out)),
      in_(std::move(in)),
      counters_(counters),
      ring_(out_.size() * kMaxPutsInFlight),
      is_due_(in_.size()),
      staging_(kStagingBytes),
      read_ahead_(kStagingBytes) {
  due_.reserve(in_.size());
  credits_.reserve(in_.size());
}

std::string Connection::name() const {
  return fmt::format("rank {} ({}, channel {})", peer_, address_, channel_);
}

Error Connection::violation(const std::string& what) const {
  Error e = make_error(twohopRemoteError, "{} broke the data protocol: {}; do all ranks run the same twohop version?",
                       name(), what);
  e.scope = Scope::kPeer;
  e.rank = peer_;
  return e;
}

Error Connection::lost(int sys_errno, const char* doing) const {
  Error e = make_error(twohopRemoteError, "lost the connection while {} {}: {} (errno {}); look at that rank's log",
                       doing, name(), std::strerror(sys_errno), sys_errno);
  e.scope = Scope::kPeer;
  e.rank = peer_;
  e.sys_errno = sys_errno;
  return e;
}

Error Connection::closed_early() const {
  Error e = make_error(twohopRemoteError,
                       "{} closed its connection while this rank still needs it: it ended or was killed; look at that "
                       "rank's log",
                       name());
  e.scope = Scope::kPeer;
  e.rank = peer_;
  return e;
}

Error Connection::left_early() const {
  Error e = make_error(
      twohopInvalidUsage,
      "{} closed its connection in good order, so it has destroyed its communicator, while this rank is in a "
      "call that needs it. All ranks must make the same calls before they destroy",
      name());
  e.scope = Scope::kPeer;
  e.rank = peer_;
  return e;
}

Result<bool> Connection::accept_credit(const FrameHeader& h) {
  auto it = std::find_if(out_.begin(), out_.end(), [&](const OutLink* l) { return l->id.tag == h.tag; });
  if (it == out_.end()) return violation(fmt::format("credit for link tag {}, which does not exist", h.tag));
  OutLink& link = **it;
  if (h.count <= link.consumed || h.count > link.sent)
    return violation(fmt::format("credit of {} on link tag {}, expected {} to {} (puts sent)", h.count, h.tag,
                                 link.consumed + 1, link.sent));
  link.consumed = h.count;
  return true;
}

Result<> Connection::begin_put(const PutFrame& f) {
  auto it = std::find_if(in_.begin(), in_.end(), [&](const InLink* l) { return l->id.tag == f.header.tag; });
  if (it == in_.end()) return violation(fmt::format("put on link tag {}, which does not exist", f.header.tag));
  InLink& link = **it;
  if (f.header.count != link.arrived + 1)
    return violation(
        fmt::format("put number {} on link tag {}, expected {}", f.header.count, f.header.tag, link.arrived + 1));
  if (link.arrived - link.released >= kMaxPutsInFlight)
    return violation(fmt::format("put number {} on link tag {} with {} puts unreleased, the limit is {}",
                                 f.header.count, f.header.tag, link.arrived - link.released, kMaxPutsInFlight));
  for (int i = 0; i < kMaxRuns; ++i) {
    const auto [offset, bytes] = f.runs[i];
    if (bytes > link.inbox.size() || offset > link.inbox.size() - bytes)
      return violation(fmt::format("put number {} on link tag {} writes {} bytes at offset {}, the inbox has {}",
                                   f.header.count, f.header.tag, bytes, offset, link.inbox.size()));
    landing_.runs[i] = {link.inbox.data() + offset, bytes};
  }
  landing_.link = &link;
  landing_.tag = {f.call, f.signature};
  read_ahead_ = f.runs[0].bytes + f.runs[1].bytes > kLargePutBytes ? kHeadersOnlyBytes : kStagingBytes;
  return {};
}

void Connection::finish_put() {
  InLink& link = *landing_.link;
  link.tags[landing_.tag.call % link.tags.size()] = landing_.tag;
  ++link.arrived;
  landing_.link = nullptr;
}

Result<bool> Connection::accept_goodbye(const FrameHeader& h) {
  if (h.tag != 0 || h.count != 0) return violation(fmt::format("goodbye with tag {}, count {}", h.tag, h.count));
  for (const OutLink* link : out_)
    if (link->consumed != link->posted) return left_early();
  peer_left_ = true;
  for (OutLink* link : out_) link->peer_left = true;
  for (InLink* link : in_) link->peer_left = true;
  return true;
}

Result<bool> Connection::unknown_kind(const FrameHeader& h) const {
  return violation(fmt::format("frame of kind {}, known are 1 to 3", h.kind));
}

/// Takes one whole frame off the staged bytes. Returns its size, 0 if it is not all there yet.
Result<size_t> Connection::parse_frame(bool* changed) {
  const std::byte* at = staging_.data() + staged_begin_;
  const size_t staged = staged_end_ - staged_begin_;
  if (staged < sizeof(FrameHeader)) return size_t{0};
  const auto h = peek<FrameHeader>(at);
  if (h.version != kWireVersion)
    return violation(fmt::format("frame of version {}, this rank speaks {}", h.version, kWireVersion));
  if (h.reserved != 0) return violation(fmt::format("frame with reserved field {:#x}, expected 0", h.reserved));
  if (h.kind == static_cast<uint8_t>(FrameKind::kPut)) {
    if (staged < sizeof(PutFrame)) return size_t{0};
    if (auto r = begin_put(peek<PutFrame>(at)); !r) return r.error();
    return sizeof(PutFrame);
  }
  auto r = h.kind == static_cast<uint8_t>(FrameKind::kCredit)    ? accept_credit(h)
           : h.kind == static_cast<uint8_t>(FrameKind::kGoodbye) ? accept_goodbye(h)
                                                                 : unknown_kind(h);
  if (!r) return r.error();
  *changed |= *r;
  return sizeof(FrameHeader);
}

/// Works off the staged bytes. Afterwards they are less than one frame, at the front of the buffer; and none at all
/// while a put is landing.
Result<bool> Connection::parse() {
  bool changed = false;
  while (!peer_left_) {
    if (landing_.link) {
      for (iovec& run : landing_.runs) {
        const size_t n = std::min(run.iov_len, staged_end_ - staged_begin_);
        if (n > 0) std::memcpy(run.iov_base, staging_.data() + staged_begin_, n);
        staged_begin_ += n;
        run = rest(run, n);
      }
      if (!landing_full()) break;
      finish_put();
      changed = true;
    }
    auto n = parse_frame(&changed);
    if (!n) return n.error();
    if (*n == 0) break;
    staged_begin_ += *n;
  }
  std::memmove(staging_.data(), staging_.data() + staged_begin_, staged_end_ - staged_begin_);
  staged_end_ -= staged_begin_;
  staged_begin_ = 0;
  return changed;
}

/// Where the next recvmsg puts its bytes: the rest of the landing put, then the read-ahead for what follows it.
size_t Connection::receive_pieces(std::span<iovec> pieces, size_t turn_left) {
  size_t count = 0;
  if (landing_.link) {
    for (const iovec& run : landing_.runs) {
      const size_t bytes = std::min(run.iov_len, turn_left);
      if (bytes > 0) pieces[count++] = {run.iov_base, bytes};
      if (bytes < run.iov_len) return count;
      turn_left -= bytes;
    }
  }
  pieces[count++] = {staging_.data() + staged_end_, read_ahead_ - staged_end_};
  return count;
}

/// Attributes received bytes to the pieces they went to.
void Connection::absorb(size_t bytes) {
  if (landing_.link) {
    for (iovec& run : landing_.runs) {
      const size_t n = std::min(run.iov_len, bytes);
      run = rest(run, n);
      bytes -= n;
    }
  }
  staged_end_ += bytes;
}

Result<bool> Connection::receive() {
  bool changed = false;
  for (size_t turn_left = kBytesPerTurn; turn_left > 0 && !peer_left_;) {
    std::array<iovec, kMaxRuns + 1> pieces;
    msghdr message{};
    message.msg_iov = pieces.data();
    message.msg_iovlen = receive_pieces(pieces, turn_left);
    size_t wanted = 0;
    for (size_t i = 0; i < message.msg_iovlen; ++i) wanted += pieces[i].iov_len;
    const ssize_t n = ::recvmsg(fd_.get(), &message, MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    if (n <= 0 && said_goodbye_) {
      peer_left_ = true;  // it had our goodbye, so it owes none
      break;
    }
    if (n < 0) return lost(errno, "receiving from");
    if (n == 0) return closed_early();
    const auto received = static_cast<size_t>(n);
    counters_->bytes_received += received;
    absorb(received);
    auto parsed = parse();
    if (!parsed) return parsed;
    changed |= *parsed;
    turn_left -= std::min(turn_left, received);
    if (received < wanted) break;  // nothing is left in the kernel
  }
  return changed;
}

}  // namespace twohop::tcp
