// Mutual proof, at the start of a TCP connection, that both ends hold the job's secret.
//
// Both ends send a random nonce, then an HMAC over both nonces, their role, the purpose and the connecting end's hello
// (libsodium crypto_auth). Fixed sizes, a version first, hellos of at most kMaxHelloBytes. Nothing is encrypted. Works
// on any stream socket.
#pragma once

#include <array>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/socket.hpp"

namespace twohop {

using Secret = std::array<unsigned char, 32>;
using Bytes = std::vector<std::byte>;

constexpr size_t kMaxHelloBytes = 4096;

enum class Purpose : uint32_t { kRendezvous = 1, kControl = 2, kData = 3, kLocal = 4 };

Secret random_secret();
/// A secret derived from a passphrase and a label (a hash, not a password KDF).
Secret derive_secret(const std::string& passphrase, const std::string& label);

/// Did the acceptor end the connection after it saw our proof? It then holds another secret.
inline bool refused_proof(const Error& e) {
  return e.code == twohopRemoteError && e.sys_errno == EKEYREJECTED;
}

/// Connecting end, for callers that serve many connections at once. Borrows the (non-blocking) fd.
class Prover {
 public:
  Prover(int fd, const Secret& secret, Purpose purpose, std::span<const std::byte> hello);
  ~Prover();
  Prover(Prover&&) noexcept;
  Prover& operator=(Prover&&) noexcept;
  /// Goes on without waiting: true when both ends have proved themselves. An error is final.
  Result<bool> step();
  /// What to poll the fd for before the next step.
  short wants() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Connecting end: sends `hello` with proof, checks the acceptor's proof.
Result<> handshake(int fd, const Secret& secret, Purpose purpose, std::span<const std::byte> hello, Deadline deadline);

/// Accepting end: serves any number of connections at once, so that wrong, silent or slow ones are dropped (a few
/// seconds, at most a few hundred open at once) and delay nobody.
class Acceptor {
 public:
  Acceptor(Fd listener, const Secret& secret, Purpose purpose);
  ~Acceptor();
  struct Peer {
    Fd fd;        // tuned (see tune_socket)
    Bytes hello;  // authenticated
  };
  /// The next peer that proves itself, or twohopTimeout at the deadline, or twohopAborted when stop_fd becomes
  /// readable.
  Result<Peer> next(Deadline deadline, int stop_fd = -1);
  int listener() const;
  /// Connections so far that spoke the protocol to its end, but with another secret.
  size_t unproved() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace twohop
