// BoundSchedule: the program of this rank with addresses and links filled in, for every channel. Made once per
// (algorithm, collective, root) and kept; binding is the only place that allocates.
//
// The steps are bound_step.hpp's, which the GPU reads too.
#pragma once

#include <memory>
#include <vector>

#include "collectives/exec/bound_step.hpp"
#include "collectives/exec/node_addresses.hpp"
#include "collectives/plan/algorithm.hpp"
#include "transport/endpoint.hpp"

namespace twohop {

/// Move-only, since the steps point into it.
struct BoundSchedule {
  const Algorithm* algorithm = nullptr;
  Frame frame;
  std::vector<std::vector<std::vector<BoundStep>>> lanes;  // by channel, lane
  std::vector<std::unique_ptr<BoundRef[]>> sources;        // what the steps' srcs point into, one piece per lane
};

/// The links of a communicator, one entry per channel and link end, as given to Endpoint::connect.
struct LinkTable {
  std::vector<LinkId> out, in;
  size_t find_out(const LinkId& id) const;  // out.size() when there is none
  size_t find_in(const LinkId& id) const;
};

/// All links that these algorithms need at `rank` for any collective, in a fixed order, for all channels.
LinkTable links_of(std::span<const Algorithm* const> algorithms, const Cluster& cluster, int rank, int channels);

/// `tables[i]` belongs to the node's i-th rank: inboxes are numbered by it. `direct`: without staging
/// (plan/direct.hpp).
BoundSchedule bind(const Algorithm& algorithm, const Request& request, bool direct, int rank, const NodeAddresses& node,
                   const std::vector<LinkTable>& tables, int channels);

}  // namespace twohop
