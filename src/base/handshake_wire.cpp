// See handshake_wire.hpp.
#include "base/handshake_wire.hpp"

#include <endian.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

namespace twohop::wire {
namespace {

void append(Bytes& to, const void* data, size_t bytes) {
  const auto* p = static_cast<const std::byte*>(data);
  to.insert(to.end(), p, p + bytes);
}

Result<bool> no_progress(const char* what) {
  if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) return false;
  Error e = system_error(errno, "{} failed in the handshake", what);
  if (e.sys_errno == ECONNRESET || e.sys_errno == EPIPE) e.code = twohopRemoteError;
  return e;
}

}  // namespace

Opening make_opening(Role role, Purpose purpose, size_t hello_bytes) {
  Opening o;
  o.role = role;
  o.purpose_le = htole32(static_cast<uint32_t>(purpose));
  o.hello_bytes_le = htole32(static_cast<uint32_t>(hello_bytes));
  const Secret fresh = random_secret();
  static_assert(sizeof o.nonce == sizeof fresh);
  o.nonce = fresh;
  return o;
}

std::string opening_fault(const Opening& got, Role role, Purpose purpose) {
  if (got.magic != kMagic) return "it does not speak twohop's protocol";
  if (got.version != kVersion)
    return fmt::format("it speaks version {} of the handshake, this process {}: use one twohop version in all ranks",
                       got.version, kVersion);
  if (got.role != role) return "it answered as the wrong end";
  if (le32toh(got.purpose_le) != static_cast<uint32_t>(purpose))
    return fmt::format("the port serves purpose {}, not {}", le32toh(got.purpose_le), static_cast<uint32_t>(purpose));
  if (le32toh(got.hello_bytes_le) > kMaxHelloBytes) return "its hello is too long";
  return "";
}

Proof prove(const Secret& secret, Role role, Purpose purpose, const Nonce& connector, const Nonce& acceptor,
            std::span<const std::byte> hello) {
  static constexpr char kLabel[] = "twohop handshake 1";
  const uint32_t numbers[] = {htole32(static_cast<uint32_t>(role)), htole32(static_cast<uint32_t>(purpose)),
                              htole32(static_cast<uint32_t>(hello.size()))};
  Bytes text;
  append(text, kLabel, sizeof kLabel);
  append(text, numbers, sizeof numbers);
  append(text, connector.data(), connector.size());
  append(text, acceptor.data(), acceptor.size());
  append(text, hello.data(), hello.size());
  Proof proof;
  crypto_auth(proof.data(), reinterpret_cast<const unsigned char*>(text.data()), text.size(), secret.data());
  return proof;
}

bool same_proof(const Proof& a, const Proof& b) {
  return sodium_memcmp(a.data(), b.data(), a.size()) == 0;
}

Result<bool> receive_some(int fd, std::span<std::byte> into, size_t& received) {
  while (received < into.size()) {
    const ssize_t n = recv(fd, into.data() + received, into.size() - received, MSG_DONTWAIT);
    if (n < 0) return no_progress("recv");
    if (n == 0) return make_error(twohopRemoteError, "the peer closed the connection during the handshake");
    received += static_cast<size_t>(n);
  }
  return true;
}

Result<bool> send_some(int fd, std::span<const std::byte> from, size_t& sent) {
  while (sent < from.size()) {
    const ssize_t n = send(fd, from.data() + sent, from.size() - sent, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0) return no_progress("send");
    sent += static_cast<size_t>(n);
  }
  return true;
}

}  // namespace twohop::wire
