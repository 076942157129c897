// How does a set of file descriptors go over a Unix socket? One small message with SCM_RIGHTS.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "base/result.hpp"
#include "base/socket.hpp"

namespace twohop {

constexpr size_t kMaxTransferFds = 16;

/// Does not wait: the message is the first that the socket is to hold after the handshake.
Result<> send_fds(int socket, std::span<const int> fds);
/// Nothing when the message has not arrived yet.
Result<std::optional<std::vector<Fd>>> receive_fds(int socket);
/// Errors unless the process at the other end runs as this process's user.
Result<> check_same_user(int socket);

}  // namespace twohop
