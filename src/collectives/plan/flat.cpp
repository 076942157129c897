// flat: the good flat ring, in node order: each node is entered once and left once.
#include "collectives/plan/flat_ring.hpp"

namespace twohop::flat {
namespace {

std::vector<int> order(const Cluster& c) {
  std::vector<int> ranks;
  for (const auto& node : c.nodes) ranks.insert(ranks.end(), node.begin(), node.end());
  return ranks;
}
constexpr int kFirstTag = 0x4000;

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
const Algorithm kAlgorithm{"flat", supports, flat_ring::frame, program, bytes_out_per_byte};

}  // namespace twohop::flat
