// What the bytes between two verbs endpoints mean: the 32 bits of an immediate, a call tag in memory, and the messages
// of the setup socket. Little-endian, a version byte first. Nothing here checks values.
#pragma once

#include <endian.h>

#include <cstdint>
#include <type_traits>

#include "transport/endpoint.hpp"

namespace twohop::verbs {

constexpr uint8_t kWireVersion = 3;
constexpr uint16_t kNoRailNumber = 0xffff;
constexpr size_t kMaxParts = 128;            // of a put: one per queue pair
constexpr uint32_t kCountModulus = 1 << 14;  // of a credit's count

/// The immediate that ends a part of a put, or that carries a credit. Links of one direction between two ranks are
/// numbered by (channel, tag) on both ends.
///
///   put:    0 | tagged | last | part (7) | slot (6) | link (16)
///   credit: 1 | 0 | count mod 2^14 (14) | link (16)
struct Immediate {
  bool credit = false;
  uint16_t link = 0;
  uint32_t count = 0;   // credit: puts consumed in all, modulo kCountModulus
  uint8_t slot = 0;     // put: its number on the link, from 0, modulo kMaxPutsInFlight
  uint8_t part = 0;     // put
  bool last = false;    // put: has part + 1 parts
  bool tagged = false;  // put: its call tag was written before (on part 0)
  bool operator==(const Immediate&) const = default;
};
static_assert(kMaxPutsInFlight <= 64 && kMaxParts <= 128, "they must fit their bits");
static_assert(kCountModulus > 2 * kMaxPutsInFlight, "a count must be unambiguous among the puts in flight");

constexpr uint32_t pack(const Immediate& i) {
  if (i.credit) return 1u << 31 | (i.count % kCountModulus) << 16 | i.link;
  return uint32_t{i.tagged} << 30 | uint32_t{i.last} << 29 | uint32_t{i.part} << 22 | uint32_t{i.slot} << 16 | i.link;
}
constexpr Immediate unpack(uint32_t bits) {
  Immediate i;
  i.link = static_cast<uint16_t>(bits);
  i.credit = (bits >> 31) != 0;
  if (i.credit) {
    i.count = bits >> 16 & (kCountModulus - 1);
    return i;
  }
  i.slot = bits >> 16 & 63;
  i.part = bits >> 22 & 127;
  i.last = (bits >> 29 & 1) != 0;
  i.tagged = (bits >> 30 & 1) != 0;
  return i;
}

/// In the receiver's memory, one per slot of a link: which call the put of that slot belongs to.
struct TagSlot {
  uint64_t call, signature;
};

// ---- Setup messages: Offer = OfferHeader, RailRows, GidRows of all rails, LinkRows, keys; then QpRows; then a Ready
// message ----

struct OfferHeader {
  uint8_t version;
  uint8_t reserved[3];
  uint32_t rails, links, qps_per_connection;
};

struct RailRow {
  uint16_t lid;
  uint8_t mtu;         // ibv_mtu
  uint8_t link_layer;  // IBV_LINK_LAYER_*
  uint32_t gids;       // how many GidRows it has
  uint32_t tag_key;    // rkey of the tag slots
  uint16_t number;     // of the rail in the job; kNoRailNumber: not known
  uint16_t own;        // 1: the sender's own; see RailEnd
  char name[32];       // "mlx5_0:1", zero terminated
};

/// A GID that the sender may use; its index means nothing to others.
struct GidRow {
  uint8_t gid[16];
  uint16_t preference;  // see GidCandidate
  uint8_t type;         // GidType
  uint8_t prefix_bits;
  uint8_t reserved[4];
};

struct LinkRow {
  uint16_t channel, tag;
  uint16_t max_in_flight;
  uint8_t outgoing;  // 1: the sender of this row sends puts on the link; addresses are 0
  uint8_t reserved;
  uint64_t inbox_bytes, inbox_address, tag_address;
};
// The keys: for every incoming LinkRow, for every rail, the inbox's rkey (uint32_t).

struct QpRow {
  uint32_t qpn, psn;
};

/// From kDown on: payloads of verbs_rail_messages.hpp, about a path whose rail died or came back.
enum class ControlKind : uint8_t {
  kReady = 1,
  kGoodbye,
  kDown,
  kHeld,
  kConnect,
  kAccept,
  kRefuse,
  kGo,
  kRails,
  kProbe,
  kProbeReply,
  kEnd  // the sender's endpoint is dead, and why
};
/// On the setup socket, once connected. A payload follows it.
struct ControlMessage {
  uint8_t version;
  uint8_t kind;
  uint8_t reserved[2];
  uint32_t payload_bytes;
  uint64_t immediates;  // goodbye: how many the sender has sent to the receiver; all are acknowledged
};

static_assert(sizeof(TagSlot) == 16 && sizeof(OfferHeader) == 16 && sizeof(RailRow) == 48 && sizeof(GidRow) == 24 &&
              sizeof(LinkRow) == 32);
static_assert(sizeof(QpRow) == 8 && sizeof(ControlMessage) == 16);
static_assert(std::is_trivially_copyable_v<RailRow> && std::is_trivially_copyable_v<LinkRow>);

}  // namespace twohop::verbs
