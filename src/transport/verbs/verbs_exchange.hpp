// What two ranks tell each other before their queue pairs are connected: offers (rails, links, keys), then queue pair
// numbers. Over the authenticated socket; everything is checked, since it comes from outside.
#pragma once

#include <vector>

#include "base/socket.hpp"
#include "transport/verbs/verbs_gid.hpp"
#include "transport/verbs/verbs_wire.hpp"

namespace twohop::verbs {

struct OfferedRail {
  RailRow row{};
  std::vector<GidCandidate> gids;  // received: without indices and interfaces
};

/// In host byte order.
struct Offer {
  uint32_t qps_per_connection = 1;
  std::vector<OfferedRail> rails;
  std::vector<LinkRow> links;
  std::vector<uint32_t> keys;  // inbox rkeys of the incoming links, by link, then rail
};

Result<> send_offer(int fd, const Offer& offer, Deadline deadline);
Result<Offer> receive_offer(int fd, Deadline deadline);

/// Is their view of the links the mirror image of ours? Both are sorted by (outgoing, channel, tag).
Result<> compare_links(const std::vector<LinkRow>& ours, const std::vector<LinkRow>& theirs);

Result<> send_rows(int fd, std::span<const QpRow> rows, Deadline deadline);
Result<std::vector<QpRow>> receive_rows(int fd, size_t count, Deadline deadline);

Result<> send_control(int fd, ControlKind kind, uint64_t immediates, Deadline deadline);
/// Waits until the peer is ready to receive.
Result<> receive_ready(int fd, Deadline deadline);

}  // namespace twohop::verbs
