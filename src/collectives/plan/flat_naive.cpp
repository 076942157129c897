// flat-naive: a flat ring that ignores nodes: neighbours sit on different nodes wherever that is possible.
#include "collectives/plan/flat_ring.hpp"

namespace twohop::flat_naive {
namespace {

/// Deals the ranks out like cards: the first of each node, then the second of each, ...
std::vector<int> order(const Cluster& c) {
  std::vector<int> ranks;
  for (int i = 0; i < c.max_local_size(); ++i)
    for (const auto& node : c.nodes)
      if (i < static_cast<int>(node.size())) ranks.push_back(node[i]);
  return ranks;
}
constexpr int kFirstTag = 0x5000;

bool supports(const Cluster&, Collective c) {
  return c == Collective::kAllReduce;
}
Program program(const Request& r, int rank) {
  return flat_ring::program(r, rank, order(*r.cluster), kFirstTag);
}
double bytes_out_per_byte(const Cluster& c, Collective) {
  return flat_ring::bytes_out_per_byte(c, order(c));
}

}  // namespace

extern const Algorithm kAlgorithm;
const Algorithm kAlgorithm{"flat-naive", supports, flat_ring::frame, program, bytes_out_per_byte};

}  // namespace twohop::flat_naive
