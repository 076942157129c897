// node-ring, node-ring-tree, node-ring-log: the two-hop algorithms with a ring inside the node for nodes of many ranks:
// a shard collects contributions on its way from rank to rank to its owner, so that every rank reads from its neighbour
// only. The way back is direct in all of them: a finished chunk is copied once, from where it lies.
#include "collectives/plan/two_hop.hpp"

namespace twohop::two_hop {
namespace {

bool reduces(const Cluster&, Collective c) {
  return c == Collective::kAllReduce || c == Collective::kReduceScatter;
}
bool is_all_reduce(const Cluster&, Collective c) {
  return c == Collective::kAllReduce;
}

template <const ExchangeKind& kind>
Frame make_frame(const Request& r) {
  return frame(r, kind);
}
template <const ExchangeKind& kind>
Program make_program(const Request& r, int rank) {
  return program(r, rank, kind, NodeStage::kRing);
}

}  // namespace

extern const Algorithm kNodeRing, kNodeRingTree, kNodeRingLog;
const Algorithm kNodeRing{"node-ring", reduces, make_frame<kRing>, make_program<kRing>, ring_bytes_out_per_byte};
const Algorithm kNodeRingTree{"node-ring-tree", is_all_reduce, make_frame<kTree>, make_program<kTree>,
                              tree_bytes_out_per_byte};
const Algorithm kNodeRingLog{"node-ring-log", reduces, make_frame<kLog>, make_program<kLog>, log_bytes_out_per_byte};

}  // namespace twohop::two_hop
