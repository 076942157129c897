// Standing: where a rank is in its sequence of calls, as it says of itself when a call hangs; and who is to blame, as
// far as the standings of all ranks tell.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "bootstrap/wire.hpp"

namespace twohop {

struct Standing {
  enum class Place : uint8_t { kBetweenCalls, kInCall, kLeft };
  Place place = Place::kBetweenCalls;
  uint64_t call = 0;       // the one it is in, or has last finished; calls count from 1
  int32_t waits_for = -1;  // a rank; -1: nobody, or not known
  uint32_t still_ms = 0;   // how long its call has not moved
  /// Calls that its program has made, running ones included: on host memory, and on GPUs.
  uint32_t host_calls = 0, gpu_calls = 0;
  bool operator==(const Standing&) const = default;
};

Bytes encode(int rank, const Standing& standing);
/// Nothing when it is malformed.
std::optional<std::pair<int, Standing>> decode_standing(std::span<const std::byte> data);

/// Two ranks one of which has made a call on host memory where the other made one on a GPU, in words; nothing while all
/// may be in the same sequence of calls. Such ranks wait for each other for ever.
std::optional<std::string> who_calls_elsewhere(std::span<const std::optional<Standing>> standings);

/// Who is late, in words, seen from `rank` which does not get on in `call`. standings[r] is empty for ranks that did
/// not answer: those come first (a stopped process, a host that hangs), then ranks that have not entered the call, then
/// the end of the chain of ranks that wait for each other.
std::string who_is_late(std::span<const std::optional<Standing>> standings, int rank, uint64_t call);

}  // namespace twohop
