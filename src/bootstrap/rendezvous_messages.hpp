// What do a rank and the root say to each other? The rank's hello (inside the handshake) and the root's answer.
#pragma once

#include <optional>

#include "base/result.hpp"
#include "bootstrap/wire.hpp"

namespace twohop {

struct RankHello {
  int rank = -1, nranks = 0;
  uint32_t patience_ms = 0;  // answer by then, if only to say what is missing
  SocketAddress listener;
  std::string identity;
};
Bytes encode(const RankHello& hello);
/// The error says what is wrong with it.
Result<RankHello> decode_hello(std::span<const std::byte> data);

struct RootAnswer {
  std::optional<Error> failure;
  SocketAddress parent;  // meaningless for rank 0
  std::string parent_identity;
};
constexpr size_t kMaxAnswerBytes = 2048;
/// With its length before it.
Bytes encode(const RootAnswer& answer);
Result<RootAnswer> receive_answer(int fd, Deadline deadline);

/// An error as it travels: code, rank, message.
void write_error(Writer& to, const Error& error);
Error read_error(Reader& from);

}  // namespace twohop
