// See verbs_exchange.hpp.
#include "transport/verbs/verbs_exchange.hpp"

#include <algorithm>

namespace twohop::verbs {
namespace {

constexpr uint32_t kMaxRailRows = 256, kMaxGidRows = 4096, kMaxLinkRows = 1 << 16;

template <class T>
std::span<const std::byte> bytes_of(const std::vector<T>& v) {
  return std::as_bytes(std::span(v));
}

template <class T>
Result<> receive_all_of(int fd, std::vector<T>& v, Deadline deadline) {
  return receive_all(fd, std::as_writable_bytes(std::span(v)), deadline);
}

RailRow swapped(RailRow r) {
  r.lid = htole16(r.lid);
  r.gids = htole32(r.gids);
  r.tag_key = htole32(r.tag_key);
  r.number = htole16(r.number);
  r.own = htole16(r.own);
  return r;
}
GidRow swapped(GidRow r) {
  r.preference = htole16(r.preference);
  return r;
}
LinkRow swapped(LinkRow r) {
  r.channel = htole16(r.channel);
  r.tag = htole16(r.tag);
  r.max_in_flight = htole16(r.max_in_flight);
  r.inbox_bytes = htole64(r.inbox_bytes);
  r.inbox_address = htole64(r.inbox_address);
  r.tag_address = htole64(r.tag_address);
  return r;
}
uint32_t swapped(uint32_t v) {
  return htole32(v);
}
QpRow swapped(QpRow r) {
  return {htole32(r.qpn), htole32(r.psn)};
}

/// To the wire's byte order or back: the same exchange of bytes.
template <class T>
std::vector<T> swapped(std::span<const T> rows) {
  std::vector<T> result;
  for (const T& r : rows) result.push_back(swapped(r));
  return result;
}
template <class T>
std::vector<T> swapped(const std::vector<T>& rows) {
  return swapped(std::span<const T>(rows));
}

GidRow row_of(const GidCandidate& c) {
  GidRow row{};
  std::copy(std::begin(c.entry.gid.raw), std::end(c.entry.gid.raw), row.gid);
  row.preference = c.preference;
  row.type = static_cast<uint8_t>(c.entry.type);
  row.prefix_bits = c.entry.prefix_bits;
  return row;
}

GidCandidate candidate_of(const GidRow& row) {
  GidCandidate c;
  c.entry.index = -1;
  std::copy(std::begin(row.gid), std::end(row.gid), c.entry.gid.raw);
  c.preference = row.preference;
  c.entry.type = static_cast<GidType>(row.type);
  c.entry.prefix_bits = std::min<uint8_t>(row.prefix_bits, 128);
  return c;
}

Result<> receive_rails(int fd, uint32_t count, std::vector<OfferedRail>& rails, Deadline deadline) {
  std::vector<RailRow> rows(count);
  if (auto r = receive_all_of(fd, rows, deadline); !r) return r;
  for (RailRow& row : rows) {
    row = swapped(row);
    row.name[sizeof row.name - 1] = 0;
    if (row.gids > kMaxGidRows)
      return make_error(twohopRemoteError, "its {} has {} GIDs, at most {} are accepted", row.name, row.gids,
                        kMaxGidRows);
    rails.push_back({row, {}});
  }
  for (OfferedRail& rail : rails) {
    std::vector<GidRow> gids(rail.row.gids);
    if (auto r = receive_all_of(fd, gids, deadline); !r) return r;
    for (const GidRow& gid : gids) rail.gids.push_back(candidate_of(swapped(gid)));
  }
  return {};
}

}  // namespace

Result<> send_offer(int fd, const Offer& offer, Deadline deadline) {
  std::vector<std::byte> message;
  auto add = [&](std::span<const std::byte> bytes) { message.insert(message.end(), bytes.begin(), bytes.end()); };
  const OfferHeader header{kWireVersion,
                           {},
                           htole32(static_cast<uint32_t>(offer.rails.size())),
                           htole32(static_cast<uint32_t>(offer.links.size())),
                           htole32(offer.qps_per_connection)};
  add(std::as_bytes(std::span(&header, 1)));
  std::vector<RailRow> rails;
  std::vector<GidRow> gids;
  for (const OfferedRail& rail : offer.rails) {
    rails.push_back(rail.row);
    rails.back().gids = static_cast<uint32_t>(rail.gids.size());
    for (const GidCandidate& c : rail.gids) gids.push_back(row_of(c));
  }
  add(bytes_of(swapped(rails)));
  add(bytes_of(swapped(gids)));
  add(bytes_of(swapped(offer.links)));
  add(bytes_of(swapped(offer.keys)));
  return send_all(fd, message, deadline);
}

Result<Offer> receive_offer(int fd, Deadline deadline) {
  OfferHeader header{};
  if (auto r = receive_all(fd, std::as_writable_bytes(std::span(&header, 1)), deadline); !r) return r.error();
  const uint32_t rails = le32toh(header.rails), links = le32toh(header.links);
  if (header.version != kWireVersion)
    return make_error(twohopInvalidUsage,
                      "it speaks verbs protocol {}, this rank {}: all ranks must run the same twohop version",
                      header.version, kWireVersion);
  if (rails == 0 || rails > kMaxRailRows || links > kMaxLinkRows)
    return make_error(twohopRemoteError, "it offers {} rails and {} links; does it run the same twohop version?", rails,
                      links);
  Offer offer;
  offer.qps_per_connection = le32toh(header.qps_per_connection);
  offer.links.resize(links);
  if (auto r = receive_rails(fd, rails, offer.rails, deadline); !r) return r.error();
  if (auto r = receive_all_of(fd, offer.links, deadline); !r) return r.error();
  offer.links = swapped(offer.links);
  const auto incoming = static_cast<size_t>(
      std::count_if(offer.links.begin(), offer.links.end(), [](const LinkRow& l) { return l.outgoing == 0; }));
  offer.keys.resize(incoming * rails);
  if (auto r = receive_all_of(fd, offer.keys, deadline); !r) return r.error();
  offer.keys = swapped(offer.keys);
  return offer;
}

Result<> compare_links(const std::vector<LinkRow>& ours, const std::vector<LinkRow>& theirs) {
  if (ours.size() != theirs.size())
    return make_error(twohopInvalidUsage,
                      "it has {} links with this rank, this rank has {} with it: all ranks must plan the same cluster "
                      "with the same TWOHOP_* settings",
                      theirs.size(), ours.size());
  for (const LinkRow& mine : ours) {
    const auto it = std::find_if(theirs.begin(), theirs.end(), [&](const LinkRow& l) {
      return l.channel == mine.channel && l.tag == mine.tag && (l.outgoing != 0) != (mine.outgoing != 0);
    });
    const char* direction = mine.outgoing ? "outgoing" : "incoming";
    if (it == theirs.end())
      return make_error(twohopInvalidUsage,
                        "it does not know the {} link of channel {}, tag {}: all ranks must plan the same cluster with "
                        "the same TWOHOP_* settings",
                        direction, mine.channel, mine.tag);
    if (it->inbox_bytes != mine.inbox_bytes || it->max_in_flight != mine.max_in_flight)
      return make_error(twohopInvalidUsage,
                        "the inbox of the {} link of channel {}, tag {} has {} bytes for {} puts there and {} bytes "
                        "for {} here: all ranks must have the same TWOHOP_BUFFSIZE, TWOHOP_CHUNK_BYTES and "
                        "TWOHOP_NCHANNELS",
                        direction, mine.channel, mine.tag, it->inbox_bytes, it->max_in_flight, mine.inbox_bytes,
                        mine.max_in_flight);
  }
  return {};
}

Result<> send_rows(int fd, std::span<const QpRow> rows, Deadline deadline) {
  return send_all(fd, bytes_of(swapped(rows)), deadline);
}

Result<std::vector<QpRow>> receive_rows(int fd, size_t count, Deadline deadline) {
  std::vector<QpRow> rows(count);
  if (auto r = receive_all_of(fd, rows, deadline); !r) return r.error();
  return swapped(rows);
}

Result<> send_control(int fd, ControlKind kind, uint64_t immediates, Deadline deadline) {
  const ControlMessage m{kWireVersion, static_cast<uint8_t>(kind), {}, 0, htole64(immediates)};
  return send_all(fd, std::as_bytes(std::span(&m, 1)), deadline);
}

Result<> receive_ready(int fd, Deadline deadline) {
  ControlMessage m{};
  if (auto r = receive_all(fd, std::as_writable_bytes(std::span(&m, 1)), deadline); !r) return r;
  if (m.version == kWireVersion && m.kind == static_cast<uint8_t>(ControlKind::kReady)) return {};
  return make_error(twohopRemoteError, "it sent control message {} of version {} where \"ready\" was expected", m.kind,
                    m.version);
}

}  // namespace twohop::verbs
