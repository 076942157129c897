// The unique id: what twohopUniqueId's bytes hold, and the listener behind it (the root service).
#pragma once

#include "base/handshake.hpp"
#include "base/options.hpp"
#include "base/result.hpp"

namespace twohop {

struct UniqueIdContent {
  SocketAddress root;  // where the root service listens
  Secret secret;
  bool shared_port = false;  // several communicators are rooted there, one after the other
};
twohopUniqueId encode(const UniqueIdContent& content);
/// Errors: not one of ours, another version, altered on its way.
Result<UniqueIdContent> decode(const twohopUniqueId& id);

/// Makes an id with a random secret and starts its root service in this process: a thread that introduces the ranks to
/// each other and ends when all have joined, or after the init timeout.
Result<twohopUniqueId> make_unique_id(const Options& options);

/// The id that launcher variables imply; on rank 0 starts the root service. Each call in a process gives the id of the
/// next communicator (a sequence number goes into the secret, and all of them share one port).
Result<twohopUniqueId> make_env_unique_id(const LauncherEnv& launcher, const Options& options);
/// The same for a given sequence number.
Result<twohopUniqueId> make_env_unique_id(const LauncherEnv& launcher, const Options& options, uint64_t sequence);

}  // namespace twohop
