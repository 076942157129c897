// See fd_transfer.hpp.
#include "bootstrap/fd_transfer.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "base/check.hpp"

namespace twohop {
namespace {

struct Header {
  std::array<unsigned char, 4> magic = {'2', 'h', 'f', 'd'};
  uint8_t version = 1;
  uint8_t count = 0;
  uint8_t reserved[2] = {};
};
static_assert(sizeof(Header) == 8);

union ControlBuffer {
  cmsghdr align;
  char bytes[CMSG_SPACE(kMaxTransferFds * sizeof(int))];
};

/// Takes ownership of every descriptor that came along, wanted or not.
std::vector<Fd> take_fds(msghdr& message) {
  std::vector<Fd> fds;
  for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    const size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < n; i++) {
      int fd;
      std::memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof fd);
      fds.emplace_back(fd);
    }
  }
  return fds;
}

}  // namespace

Result<> send_fds(int socket, std::span<const int> fds) {
  TWOHOP_CHECK(fds.size() <= kMaxTransferFds, "{} descriptors at once", fds.size());
  Header header;
  header.count = static_cast<uint8_t>(fds.size());
  iovec data{&header, sizeof header};
  ControlBuffer control{};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  if (!fds.empty()) {
    message.msg_control = control.bytes;
    message.msg_controllen = CMSG_SPACE(fds.size_bytes());
    cmsghdr* c = CMSG_FIRSTHDR(&message);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(c), fds.data(), fds.size_bytes());
  }
  if (sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL) == sizeof header) return {};
  return system_error(errno, "cannot hand over {} file descriptors", fds.size());
}

Result<std::optional<std::vector<Fd>>> receive_fds(int socket) {
  Header header;
  iovec data{&header, sizeof header};
  ControlBuffer control{};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes;
  message.msg_controllen = sizeof control.bytes;
  const ssize_t n = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return std::optional<std::vector<Fd>>();
  if (n < 0) return system_error(errno, "cannot receive file descriptors");
  if (n == 0) return make_error(twohopRemoteError, "it closed the connection before it handed over its descriptors");
  std::vector<Fd> fds = take_fds(message);
  if (message.msg_flags & MSG_CTRUNC)
    return make_error(twohopSystemError, "its file descriptors did not fit into this process: raise 'ulimit -n'");
  if (n != sizeof header || header.magic != Header().magic || header.version != 1 || header.count != fds.size())
    return make_error(twohopInternalError, "it sent a malformed hand-over message");
  return std::optional<std::vector<Fd>>(std::move(fds));
}

Result<> check_same_user(int socket) {
  ucred peer{};
  socklen_t length = sizeof peer;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0)
    return system_error(errno, "cannot tell the user of the process at the other end");
  if (peer.uid == geteuid()) return {};
  return make_error(twohopInvalidUsage, "it runs as user {}, this process as user {}", peer.uid, geteuid());
}

}  // namespace twohop
