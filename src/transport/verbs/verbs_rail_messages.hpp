// What do two ranks tell each other when a rail between them dies or comes back? The payloads of control messages, as
// values and as bytes. verbs_failover.hpp has the protocol. Decoding checks lengths and counts, not meanings.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "transport/verbs/verbs_wire.hpp"

namespace twohop::verbs {

using Payload = std::vector<std::byte>;
/// More is a violation. What a rank holds of 64 puts on thousands of links fits.
constexpr uint32_t kMaxPayloadBytes = 64 << 20;

/// Which path, and for the how manieth time it is connected (from 0).
struct PathEpoch {
  uint32_t path = 0, epoch = 0;
};

/// "My endpoint is dead, and this is why": kEnd.
struct EndMessage {
  twohopResult_t code = twohopRemoteError;  // never twohopSuccess
  std::string cause;
};

/// "My queue pairs of this path are in ERR": kDown. Also a refusal to connect: kRefuse.
struct DownMessage {
  PathEpoch at;
  bool planned = false;  // nothing is broken: a better rail is back
  std::string cause;
};

/// "My queue pairs of this path are gone, and this is what came over them": kHeld.
struct HeldMessage {
  struct Slot {
    uint8_t number = 0;
    std::array<uint64_t, kMaxParts / 64> parts{};  // that have arrived
  };
  /// A link on which the sender of the message receives puts: all before `arrived` are here, and parts of some more.
  struct In {
    uint32_t link = 0;
    uint64_t arrived = 0;
    std::vector<Slot> slots;
  };
  /// A link on which the sender of the message sends puts: so many have been released, as far as it knows.
  struct Out {
    uint32_t link = 0;
    uint64_t credited = 0;
  };
  PathEpoch at;
  uint64_t usable = 0;  // its rails, as bits
  std::vector<In> in;
  std::vector<Out> out;
};

/// New queue pairs: kConnect (the rails are meant), kAccept (they are repeated), kProbe, kProbeReply (one row).
struct ConnectMessage {
  PathEpoch at;
  uint32_t lower_rail = 0, higher_rail = 0;
  std::vector<QpRow> rows;
};

Payload encode(const PathEpoch& m);  // kGo
Payload encode(const EndMessage& m);
Payload encode(const DownMessage& m);
Payload encode(const HeldMessage& m);
Payload encode(const ConnectMessage& m);
Payload encode_rails(uint64_t usable);  // kRails

std::optional<PathEpoch> decode_epoch(std::span<const std::byte> bytes);
std::optional<EndMessage> decode_end(std::span<const std::byte> bytes);
std::optional<DownMessage> decode_down(std::span<const std::byte> bytes);
std::optional<HeldMessage> decode_held(std::span<const std::byte> bytes);
std::optional<ConnectMessage> decode_connect(std::span<const std::byte> bytes);
std::optional<uint64_t> decode_rails(std::span<const std::byte> bytes);

}  // namespace twohop::verbs
