// A flat ring all-reduce over all ranks in a given order: what a library does that sees one ring and no nodes.
#pragma once

#include <vector>

#include "collectives/plan/algorithm.hpp"

namespace twohop::flat_ring {

Frame frame(const Request& request);

/// `order[i]` is the rank at position i. Neighbours on one node pull from each other's windows; others use links tagged
/// first_tag and first_tag + 1.
Program program(const Request& request, int rank, const std::vector<int>& order, int first_tag);

/// Payload bytes out of the busiest node per byte of buffer.
double bytes_out_per_byte(const Cluster& cluster, const std::vector<int>& order);

}  // namespace twohop::flat_ring
