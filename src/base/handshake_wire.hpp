// What do the two ends of a handshake say, byte by byte? Shared by the connecting and the accepting end.
//
//   connector -> acceptor   Opening (role 1, its nonce, size of its hello)
//   acceptor  -> connector  Opening (role 2, its nonce)
//   connector -> acceptor   Proof, hello
//   acceptor  -> connector  Proof            also the confirmation that the connector is let in
//
// The connector proves itself first, so that a port scanner gets nothing to guess a weak passphrase from. A proof
// covers role, purpose and both nonces: it can't be reflected to its sender, replayed, or used on another kind of port.
#pragma once

#include <sodium.h>

#include "base/handshake.hpp"

namespace twohop::wire {

constexpr std::array<unsigned char, 4> kMagic{'2', 'h', 'o', 'p'};
constexpr uint8_t kVersion = 1;

enum class Role : uint8_t { kConnector = 1, kAcceptor = 2 };

using Nonce = std::array<unsigned char, 32>;
using Proof = std::array<unsigned char, crypto_auth_BYTES>;

struct Opening {
  std::array<unsigned char, 4> magic = kMagic;
  uint8_t version = kVersion;
  Role role = Role::kConnector;
  uint8_t reserved[2] = {};
  uint32_t purpose_le = 0;
  uint32_t hello_bytes_le = 0;
  Nonce nonce{};
};
static_assert(sizeof(Opening) == 48 && std::is_trivially_copyable_v<Opening>);
static_assert(sizeof(Secret) == crypto_auth_KEYBYTES);

Opening make_opening(Role role, Purpose purpose, size_t hello_bytes);
/// Empty when `got` (complete) is a valid opening of `role` for `purpose`, else what is wrong with it.
std::string opening_fault(const Opening& got, Role role, Purpose purpose);
Proof prove(const Secret& secret, Role role, Purpose purpose, const Nonce& connector, const Nonce& acceptor,
            std::span<const std::byte> hello);
/// In constant time.
bool same_proof(const Proof& a, const Proof& b);

/// Receives what is missing of `into` without waiting; true when it is complete.
Result<bool> receive_some(int fd, std::span<std::byte> into, size_t& received);
/// Sends what is left of `from` without waiting; true when all is sent.
Result<bool> send_some(int fd, std::span<const std::byte> from, size_t& sent);

}  // namespace twohop::wire
