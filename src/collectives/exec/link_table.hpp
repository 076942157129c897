// The links of a rank, on all channels, and the inboxes that they lead to.
#pragma once

#include <span>
#include <vector>

#include "collectives/exec/window_map.hpp"
#include "collectives/plan/algorithm.hpp"
#include "collectives/plan/layout.hpp"
#include "transport/endpoint.hpp"

namespace twohop {

/// As given to Endpoint::connect: as many of each channel, in the order of channels, peers and inboxes.
struct LinkTable {
  std::vector<LinkId> out, in;
  /// By link: number of its inbox. Links that share one (plan/inbox_sharing.hpp) stand together. Those of `in` lie in
  /// this rank's memory in the order of these numbers; those of `out` are the peers'.
  std::vector<uint32_t> out_inbox, in_inbox;

  size_t find_out(const LinkId& id) const;  // out.size() when there is none
  size_t find_in(const LinkId& id) const;
  size_t out_inboxes() const { return out_inbox.empty() ? 0 : out_inbox.back() + 1; }
  size_t in_inboxes() const { return in_inbox.empty() ? 0 : in_inbox.back() + 1; }
  /// The out links that share the inbox of this one, itself included.
  struct Range {
    uint32_t first = 0, count = 0;
  };
  Range sharing_with(size_t out_link) const;
};

/// All links that these algorithms need at `rank` for any collective, for all channels.
LinkTable links_of(std::span<const Algorithm* const> algorithms, const Cluster& cluster, int rank, int channels);

/// Sizes of a rank's windows and inboxes.
WindowMap window_map(const Cluster& cluster, const LayoutLimits& limits);

}  // namespace twohop
