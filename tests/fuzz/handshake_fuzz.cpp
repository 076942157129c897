// Handshakes: what a stranger says to an acceptor, and what a false acceptor says to a rank that connects.
#include <sys/un.h>

#include <cstring>

#include "base/handshake.hpp"
#include "fuzz/input.hpp"

namespace twohop {
namespace {

const Secret kSecret = random_secret();

/// Nobody proves himself without the secret.
void stranger_at_acceptor(std::span<const std::byte> bytes) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  socklen_t length = sizeof(sa_family_t);  // the kernel chooses an abstract name
  Fd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), length) != 0) fuzz::fail("bind");
  if (::listen(listener.get(), 4) != 0) fuzz::fail("listen");
  length = sizeof address;
  if (::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &length) != 0) fuzz::fail("getsockname");
  Acceptor acceptor(std::move(listener), kSecret, Purpose::kControl);
  Fd stranger(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (::connect(stranger.get(), reinterpret_cast<sockaddr*>(&address), length) != 0) fuzz::fail("connect");
  for (int round = 0; round < 4; ++round) {  // accepts, reads the opening, then the proof
    const auto part = bytes.first(std::min(bytes.size(), round == 0 ? size_t{48} : bytes.size()));
    (void)!::send(stranger.get(), part.data(), part.size(), MSG_NOSIGNAL);
    bytes = bytes.subspan(part.size());
    if (acceptor.next(fuzz::at_once())) fuzz::fail("a stranger was let in");
  }
}

void false_acceptor(std::span<const std::byte> bytes) {
  const fuzz::Stream stream;
  const std::byte hello[16] = {};
  Prover prover(stream.ours.get(), kSecret, Purpose::kControl, hello);
  for (size_t part : {size_t{48}, bytes.size()}) {
    const auto said = bytes.first(std::min(part, bytes.size()));
    stream.write(said);
    bytes = bytes.subspan(said.size());
    const auto done = prover.step();
    if (done && *done) fuzz::fail("a false acceptor was believed");
    if (!done) return;
  }
  stream.end();
  const auto done = prover.step();
  if (done && *done) fuzz::fail("a false acceptor was believed");
}

}  // namespace
}  // namespace twohop

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  twohop::fuzz::Input input(data, size);
  input.u8() % 2 == 0 ? twohop::stranger_at_acceptor(input.rest()) : twohop::false_acceptor(input.rest());
  return 0;
}
