// See tree_link.hpp.
#include "bootstrap/tree_link.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "bootstrap/fork_guard.hpp"
#include "bootstrap/wire.hpp"

namespace twohop {
namespace {

constexpr size_t kMaxNoticeBytes = 2048;
constexpr size_t kGrowthBytes = 1 << 20;  // memory follows what arrives, not what a header claims

}  // namespace

TreeLink::TreeLink(Fd fd, int rank, std::string identity)
    : fd_(std::move(fd)), rank_(rank), identity_(std::move(identity)) {
  if (fd_) forget_in_forked_children(fd_.get());
}

TreeLink::~TreeLink() {
  close();
}

void TreeLink::close() {
  if (!fd_) return;
  no_longer_guarded(fd_.get());
  fd_.reset();
  out_.clear();
  sent_ = 0;
}

void TreeLink::send(FrameType type, std::span<const std::byte> payload) {
  if (!open()) return;
  Writer w;
  w.u8(kBootstrapVersion);
  w.u8(static_cast<uint8_t>(type));
  w.u16(0);
  w.u32(static_cast<uint32_t>(payload.size()));
  out_.insert(out_.end(), w.bytes().begin(), w.bytes().end());
  out_.insert(out_.end(), payload.begin(), payload.end());
  flush();
}

void TreeLink::flush() {
  while (pending()) {
    const ssize_t n = ::send(fd(), out_.data() + sent_, out_.size() - sent_, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (n < 0) break;
    sent_ += static_cast<size_t>(n);
  }
  out_.clear();
  sent_ = 0;
}

/// 0 when nothing has arrived.
Result<size_t> TreeLink::receive(std::span<std::byte> into) {
  if (into.empty()) return size_t{0};
  const ssize_t n = recv(fd(), into.data(), into.size(), MSG_DONTWAIT);
  if (n > 0) return static_cast<size_t>(n);
  if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return size_t{0};
  Error e = make_error(twohopRemoteError, "{}", n == 0 ? "connection closed" : std::strerror(errno));
  e.sys_errno = n == 0 ? 0 : errno;
  return e;
}

Result<bool> TreeLink::read_header(size_t max_data_bytes) {
  while (header_received_ < kHeaderBytes) {
    auto n = receive(std::span(header_).subspan(header_received_));
    if (!n) return n.error();
    if (*n == 0) return false;
    header_received_ += *n;
  }
  Reader r(header_);
  const int version = r.u8(), type = r.u8();
  (void)r.u16();
  payload_bytes_ = r.u32();
  const bool known = type >= static_cast<int>(FrameType::kGather) && type <= static_cast<int>(FrameType::kGivenUp);
  const bool is_data = type <= static_cast<int>(FrameType::kAll);
  if (version != kBootstrapVersion || !known || payload_bytes_ > (is_data ? max_data_bytes : kMaxNoticeBytes))
    return make_error(twohopInternalError, "malformed control frame: version {}, type {}, {} bytes", version, type,
                      payload_bytes_);
  return true;
}

Result<std::optional<Frame>> TreeLink::next_frame(size_t max_data_bytes) {
  if (auto header = read_header(max_data_bytes); !header || !*header) {
    if (!header) return header.error();
    return std::optional<Frame>();
  }
  while (payload_received_ < payload_bytes_) {
    payload_.resize(std::min(payload_bytes_, payload_received_ + kGrowthBytes));
    auto n = receive(std::span(payload_).subspan(payload_received_));
    if (!n) return n.error();
    if (*n == 0) return std::optional<Frame>();
    payload_received_ += *n;
  }
  Frame frame{static_cast<FrameType>(header_[1]), std::exchange(payload_, {})};
  header_received_ = payload_received_ = 0;
  return std::optional<Frame>(std::move(frame));
}

}  // namespace twohop
