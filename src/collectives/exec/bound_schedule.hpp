// BoundSchedule: the program of this rank with addresses and links filled in, for every channel. Made once per
// (algorithm, collective, root) and kept; binding is the only place that allocates.
//
// The steps are bound_step.hpp's, which the GPU reads too.
#pragma once

#include <memory>
#include <vector>

#include "collectives/exec/bound_step.hpp"
#include "collectives/exec/link_table.hpp"
#include "collectives/exec/node_addresses.hpp"
#include "collectives/plan/algorithm.hpp"

namespace twohop {

/// Move-only, since the steps point into it.
struct BoundSchedule {
  const Algorithm* algorithm = nullptr;
  Frame frame;
  std::vector<std::vector<std::vector<BoundStep>>> lanes;  // by channel, lane
  std::vector<std::unique_ptr<BoundRef[]>> sources;        // what the steps' srcs point into, one piece per lane
};

/// `tables[i]` belongs to the node's i-th rank: inboxes are numbered by it. `direct`: without staging
/// (plan/direct.hpp).
BoundSchedule bind(const Algorithm& algorithm, const Request& request, bool direct, int rank, const NodeAddresses& node,
                   const std::vector<LinkTable>& tables, int channels);

}  // namespace twohop
