// Do both ends of a new data connection expect the same links with the same inboxes? Asked once, before any payload.
#include <algorithm>
#include <cstddef>

#include "transport/tcp/tcp_endpoint.hpp"

namespace twohop::tcp {
namespace {

std::vector<LinkRow> link_rows(const Pair& p) {
  std::vector<LinkRow> rows;
  for (const OutLink* l : p.out) rows.push_back({htole16(l->id.tag), 1, {}, htole64(l->inbox_bytes)});
  for (const InLink* l : p.in) rows.push_back({htole16(l->id.tag), 0, {}, htole64(l->inbox.size())});
  return rows;
}

/// Ours and the peer's view of one link, decoded; a link that only one end knows has no counterpart.
Result<> compare_row(const LinkRow& theirs, std::vector<LinkRow>& ours) {
  const char* direction = theirs.outgoing ? "incoming" : "outgoing";
  auto it = std::find_if(ours.begin(), ours.end(),
                         [&](const LinkRow& r) { return r.tag == theirs.tag && r.outgoing == !theirs.outgoing; });
  if (it == ours.end())
    return make_error(twohopInvalidUsage,
                      "it has a link with tag {} that this rank lacks as {}: all ranks must plan the same cluster with "
                      "the same TWOHOP_* settings",
                      le16toh(theirs.tag), direction);
  if (it->inbox_bytes != theirs.inbox_bytes)
    return make_error(twohopInvalidUsage,
                      "the inbox of {} link tag {} has {} bytes there and {} here: all ranks must have the same "
                      "TWOHOP_BUFFSIZE, TWOHOP_CHUNK_BYTES and TWOHOP_NCHANNELS",
                      direction, le16toh(theirs.tag), le64toh(theirs.inbox_bytes), le64toh(it->inbox_bytes));
  ours.erase(it);
  return {};
}

}  // namespace

Result<> agree_on_links(const Pair& p, int fd, Deadline deadline) {
  std::vector<LinkRow> ours = link_rows(p);
  const LinkTableHeader header{kWireVersion, {}, htole32(static_cast<uint32_t>(ours.size()))};
  if (auto r = send_all(fd, std::as_bytes(std::span(&header, 1)), deadline); !r) return r;
  if (auto r = send_all(fd, std::as_bytes(std::span(ours)), deadline); !r) return r;
  LinkTableHeader theirs{};
  if (auto r = receive_all(fd, std::as_writable_bytes(std::span(&theirs, 1)), deadline); !r) return r;
  if (theirs.version != kWireVersion || le32toh(theirs.links) != ours.size())
    return make_error(twohopInvalidUsage,
                      "it has {} links of data protocol {}, this rank {} of {}: all ranks must run the same twohop "
                      "version with the same TWOHOP_* settings",
                      le32toh(theirs.links), theirs.version, ours.size(), kWireVersion);
  std::vector<LinkRow> rows(ours.size());
  if (auto r = receive_all(fd, std::as_writable_bytes(std::span(rows)), deadline); !r) return r;
  for (const LinkRow& row : rows)
    if (auto r = compare_row(row, ours); !r) return r;
  return {};
}

}  // namespace twohop::tcp
