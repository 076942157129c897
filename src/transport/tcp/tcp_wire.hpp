// What the bytes of a data connection mean: frames, and the messages by which two ranks agree on their links.
//
// Everything is little-endian with a version byte first. A put is one PutFrame followed by the bytes of its runs; a
// credit or a goodbye is a bare FrameHeader. Nothing here checks values: the readers do, since all of it is hostile.
#pragma once

#include <endian.h>

#include <cstdint>
#include <type_traits>

namespace twohop::tcp {

constexpr uint8_t kWireVersion = 1;
constexpr int kMaxRuns = 2;

enum class FrameKind : uint8_t {
  kPut = 1,
  kCredit = 2,
  kGoodbye = 3,  // the sender closes: its puts are all consumed and it owes no credit
};

struct FrameHeader {
  uint8_t version;
  uint8_t kind;
  uint16_t tag;       // of the link: sender to receiver for a put, receiver to sender for a credit; goodbye: 0
  uint32_t reserved;  // 0
  uint64_t count;     // put: its number on the link, from 1; credit: puts consumed in all; goodbye: 0
};

struct PutFrame {
  FrameHeader header;
  uint64_t call, signature;  // CallTag
  struct Run {
    uint64_t inbox_offset, bytes;
  } runs[kMaxRuns];  // an unused run has 0 bytes
};

/// The hello of the connecting end, proven by the handshake.
struct Hello {
  uint8_t version;
  uint8_t reserved;
  uint16_t channel;
  int32_t src, dst;  // ranks
};

/// After the handshake each end sends one LinkTableHeader and `links` LinkRows.
struct LinkTableHeader {
  uint8_t version;
  uint8_t reserved[3];
  uint32_t links;
};
struct LinkRow {
  uint16_t tag;
  uint8_t outgoing;  // 1: the sender of this row sends puts on the link
  uint8_t reserved[5];
  uint64_t inbox_bytes;
};

static_assert(sizeof(FrameHeader) == 16 && sizeof(PutFrame) == 64 && sizeof(Hello) == 12);
static_assert(sizeof(LinkTableHeader) == 8 && sizeof(LinkRow) == 16);
static_assert(std::is_trivially_copyable_v<PutFrame> && std::is_trivially_copyable_v<LinkRow>);

inline FrameHeader encode_header(FrameKind kind, uint16_t tag, uint64_t count) {
  return {kWireVersion, static_cast<uint8_t>(kind), htole16(tag), 0, htole64(count)};
}

inline FrameHeader decode(FrameHeader h) {
  return {h.version, h.kind, le16toh(h.tag), le32toh(h.reserved), le64toh(h.count)};
}

inline PutFrame decode(PutFrame f) {
  PutFrame d{decode(f.header), le64toh(f.call), le64toh(f.signature), {}};
  for (int i = 0; i < kMaxRuns; ++i) d.runs[i] = {le64toh(f.runs[i].inbox_offset), le64toh(f.runs[i].bytes)};
  return d;
}

}  // namespace twohop::tcp
