// Which rails and GIDs lead from this rank to a peer, which channels use them, and what is said of it in the log?
#include <algorithm>
#include <set>
#include <string_view>

#include "base/log.hpp"
#include "transport/verbs/verbs_endpoint.hpp"
#include "transport/verbs/verbs_reach.hpp"

namespace twohop::verbs {
namespace {

bool is_ethernet(const RailRow& row) {
  return row.link_layer == IBV_LINK_LAYER_ETHERNET;
}

}  // namespace

std::vector<RailEnd> ends_of(const std::vector<Rail>& rails) {
  std::vector<RailEnd> ends;
  for (const Rail& r : rails) ends.push_back({r.ethernet, r.gids, r.number, r.own});
  return ends;
}
std::vector<RailEnd> ends_of(const std::vector<OfferedRail>& rails) {
  std::vector<RailEnd> ends;
  for (const OfferedRail& r : rails)
    ends.push_back({is_ethernet(r.row), r.gids, r.row.number == kNoRailNumber ? -1 : r.row.number, r.row.own != 0});
  return ends;
}

namespace {

/// Why nothing fits together: the kinds of link differ, or the addresses do.
Error nothing_in_common(const Rail& mine, const OfferedRail& theirs) {
  const bool ethernet = is_ethernet(theirs.row);
  if (mine.ethernet != ethernet)
    return make_error(twohopInvalidUsage,
                      "its {} is {}, {} here is {}: these cannot be connected; name ports of one kind on all hosts in "
                      "TWOHOP_IB_HCA",
                      theirs.row.name, link_layer_name(ethernet), mine.name, link_layer_name(mine.ethernet));
  return make_error(twohopInvalidUsage,
                    "no GID of {} here ({}) has the RoCE version and address family of one of {} there ({}): give both "
                    "interfaces addresses of one family, or set TWOHOP_IB_GID_INDEX on each host",
                    mine.name, describe(mine.gids), theirs.row.name, describe(theirs.gids));
}

std::string with_prefix(const GidEntry& e) {
  if (e.prefix_bits == 0) return to_string(e.gid);
  return fmt::format("{}/{}", to_string(e.gid), is_ipv4(e.gid) ? e.prefix_bits - 96 : e.prefix_bits);
}

/// What is doubtful about two addresses that are not known to lie in one subnet.
std::string_view why_unsure(const GidEntry& here, const GidEntry& there) {
  if (is_link_local(here.gid) && is_link_local(there.gid))
    return "have link-local addresses only: this works only if both are in one segment";
  return "have no subnet in common: this works only if packets are routed between them";
}

}  // namespace

Result<> VerbsEndpoint::accept_offer(Peer& p, const Offer& theirs) {
  if (auto r = compare_links(make_offer(p).links, theirs.links); !r) return r;
  p.rails = theirs.rails;
  p.qps_per_path = std::max<size_t>(1, std::min<size_t>(config_.qps_per_connection, theirs.qps_per_connection));
  if (p.qps_per_path != config_.qps_per_connection)
    log_warn("rank {}: TWOHOP_IB_QPS_PER_CONNECTION is {} here and {} at rank {}: the smaller is used", rank_,
             config_.qps_per_connection, theirs.qps_per_connection, p.rank);
  const std::vector<RailEnd> here = ends_of(rails_), there = ends_of(p.rails);
  const bool lower = rank_ < p.rank;
  for (const RailPair& pair : lower ? join_rails(here, there) : join_rails(there, here)) {
    Path path{pair.lower, pair.higher, pair.gids.lower, pair.gids.higher, pair.gids.reach};
    if (!lower) {
      std::swap(path.local_rail, path.remote_rail);
      std::swap(path.local_gid, path.remote_gid);
    }
    p.paths.push_back(path);
  }
  if (p.paths.empty()) return nothing_in_common(rails_.front(), p.rails.front());
  p.home = p.paths;
  p.states.resize(p.paths.size());
  return check_paths(p);
}

Result<> VerbsEndpoint::check_paths(const Peer& p) const {
  for (const Path& path : p.paths) {
    const Rail& mine = rails_[path.local_rail];
    const OfferedRail& theirs = p.rails[path.remote_rail];
    const uint8_t mtu = theirs.row.mtu;
    if (mtu < IBV_MTU_256 || mtu > IBV_MTU_4096)
      return make_error(twohopRemoteError, "its {} has MTU code {}, known are 1 to 5", theirs.row.name, mtu);
    if (mtu != mine.mtu)
      log_warn("rank {}: {} has MTU {}, {} of rank {} {}: the smaller is used on this connection", rank_, mine.name,
               mtu_bytes(mine.mtu), theirs.row.name, p.rank, mtu_bytes(static_cast<ibv_mtu>(mtu)));
    if (path.reach == Reach::kSubnet || mine.gids.empty() || theirs.gids.empty()) continue;
    const GidEntry &here = mine.gids[path.local_gid].entry, &there = theirs.gids[path.remote_gid].entry;
    log_warn(
        "rank {}: {} ({}) and {} of rank {} ({}) {}. Set TWOHOP_IB_ADDR_RANGE or TWOHOP_IB_GID_INDEX to choose others",
        rank_, mine.name, with_prefix(here), theirs.row.name, p.rank, with_prefix(there), why_unsure(here, there));
  }
  return {};
}

std::vector<size_t> VerbsEndpoint::qps_of(const Peer& p, uint16_t channel) const {
  size_t channels = 0;
  for (const OutLink* l : p.out) channels = std::max<size_t>(channels, l->id.channel + 1u);
  for (const InLink* l : p.in) channels = std::max<size_t>(channels, l->id.channel + 1u);
  std::vector<size_t> qps = qps_of_channel(channel, channels, p.paths.size(), p.qps_per_path);
  if (qps.size() > kMaxParts) qps.resize(kMaxParts);
  return qps;
}

std::vector<size_t> VerbsEndpoint::rails_of(size_t out_link) const {
  std::set<size_t> rails;
  const OutLink* link = &out_[out_link];
  for (const Peer& p : peers_)
    if (std::find(p.out.begin(), p.out.end(), link) != p.out.end())
      for (const size_t qp : qps_of(p, link->id.channel)) rails.insert(p.paths[qp / p.qps_per_path].local_rail);
  return {rails.begin(), rails.end()};
}

/// By rail: what goes over it, and from which GID to which.
std::vector<std::vector<std::string>> VerbsEndpoint::users_of_rails() const {
  std::vector<std::vector<std::string>> users(rails_.size());
  for (const Peer& p : peers_) {
    std::set<uint16_t> channels;
    for (const OutLink* l : p.out) channels.insert(l->id.channel);
    for (const InLink* l : p.in) channels.insert(l->id.channel);
    for (size_t i = 0; i < p.paths.size(); ++i) {
      std::string numbers;
      for (uint16_t channel : channels) {
        const std::vector<size_t> qps = qps_of(p, channel);
        if (std::any_of(qps.begin(), qps.end(), [&](size_t q) { return q / p.qps_per_path == i; }))
          numbers += fmt::format("{}{}", numbers.empty() ? "" : "+", channel);
      }
      if (!numbers.empty())
        users[p.paths[i].local_rail].push_back(
            fmt::format("channel {} with rank {} ({})", numbers, p.rank, describe_path(p, p.paths[i])));
    }
  }
  return users;
}

/// "GID 3, 10.64.0.1 to 10.64.0.2" or "LID 5 to LID 6".
std::string VerbsEndpoint::describe_path(const Peer& p, const Path& path) const {
  const Rail& mine = rails_[path.local_rail];
  const OfferedRail& theirs = p.rails[path.remote_rail];
  if (!mine.ethernet) return fmt::format("LID {} to {} LID {}", mine.lid, theirs.row.name, theirs.row.lid);
  const GidEntry& gid = mine.gids[path.local_gid].entry;
  return fmt::format("GID {} {} {} to {} {}", gid.index, gid_type_name(gid.type), to_string(gid.gid), theirs.row.name,
                     to_string(theirs.gids[path.remote_gid].entry.gid));
}

/// Whether a path belongs on this rail, and is elsewhere.
bool VerbsEndpoint::is_home(const Peer& p, size_t rail) const {
  for (size_t i = 0; i < p.paths.size(); ++i)
    if (p.home[i].local_rail == rail && is_displaced(p, i)) return true;
  return false;
}

void VerbsEndpoint::print_load_plan() const {
  if (peers_.empty()) return;
  const auto users = users_of_rails();
  for (size_t r = 0; r < rails_.size(); ++r) {
    const Rail& rail = rails_[r];
    const bool joined = std::any_of(peers_.begin(), peers_.end(), [&](const Peer& p) {
      return std::any_of(p.paths.begin(), p.paths.end(), [&](const Path& path) { return path.local_rail == r; });
    });
    if (users[r].empty() && !rail.own) continue;
    if (!users[r].empty())
      log_info("rank {}: rail {} is {} ({}, MTU {}): {}", rank_, r, rail.name, link_layer_name(rail.ethernet),
               mtu_bytes(rail.mtu), fmt::join(users[r], ", "));
    else if (rail.outage)
      log_info("rank {}: rail {} ({}) carries nothing until it works again", rank_, r, rail.name);
    else if (std::any_of(peers_.begin(), peers_.end(), [&](const Peer& p) { return is_home(p, r); }))
      log_info("rank {}: rail {} ({}) carries nothing until the other ranks' rails work again", rank_, r, rail.name);
    else if (joined)
      log_warn(
          "rank {}: rail {} ({}) carries nothing: set TWOHOP_NCHANNELS to at least the number of rails, or leave it "
          "out by TWOHOP_IB_HCA",
          rank_, r, rail.name);
    else
      log_warn(
          "rank {}: rail {} ({}) carries nothing: no port of the other ranks lies in its subnet ({}). Leave it out by "
          "TWOHOP_IB_HCA, or connect the subnets",
          rank_, r, rail.name, verbs::describe(rail.gids));
  }
}

}  // namespace twohop::verbs
