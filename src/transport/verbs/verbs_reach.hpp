// Which rail of this rank talks to which rail of a peer, and from which GID to which? By link layer, RoCE version,
// address family and subnet. Both ends compute the same from the same two tables, the lower rank's first, so that only
// GIDs travel. Pure.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "transport/verbs/verbs_gid.hpp"

namespace twohop::verbs {

enum class Reach : uint8_t {
  kNone,    // no two addresses of one kind
  kRouted,  // perhaps: no common subnet is known
  kSubnet   // both lie in one subnet
};

/// Do these addresses lie in one subnet? A prefix that neither end knows is taken for /24 (IPv4) or /64. Link-local
/// addresses prove nothing: every segment has the same prefix.
bool same_subnet(const GidEntry& a, const GidEntry& b);

/// Indices of the best pair of candidates.
struct GidPair {
  size_t lower = 0, higher = 0;
  Reach reach = Reach::kNone;
};
GidPair choose_gids(std::span<const GidCandidate> lower, std::span<const GidCandidate> higher);

/// One rail as the other end sees it. An InfiniBand port is addressed by LID; of its GIDs only the subnet counts.
struct RailEnd {
  bool ethernet = false;
  std::span<const GidCandidate> gids;
  int number = -1;  // in the job; -1: not known
  bool own = true;  // of the rails that its rank should use; others only where two ranks own none in common
};
struct RailPair {
  size_t lower = 0, higher = 0;
  GidPair gids;
};

/// Joins the rails of two ranks. Rails with numbers are joined to the same number: those that both own, else those that
/// one owns. Without numbers, or with none in common: where some pair shares a subnet only such pairs are joined, so
/// that rails that never reach each other are not connected; else rails are joined by position. As many pairs as the
/// end with more rails has, less those without a partner: the other end's are shared. Empty: nothing fits together.
std::vector<RailPair> join_rails(std::span<const RailEnd> lower, std::span<const RailEnd> higher);

/// Every pair of rails that could be joined, as near as those that join_rails() joins: where a path may go when its
/// rails die.
std::vector<RailPair> pairs_in_reach(std::span<const RailEnd> lower, std::span<const RailEnd> higher);

}  // namespace twohop::verbs
