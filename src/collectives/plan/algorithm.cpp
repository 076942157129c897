// See algorithm.hpp: the table.
#include "collectives/plan/algorithm.hpp"

#include <algorithm>
#include <array>

#include "collectives/plan/two_hop.hpp"

namespace twohop {

namespace two_hop {
extern const Algorithm kTwoHop, kTwoHopTree, kTwoHopLog, kNodeRing, kNodeRingTree, kNodeRingLog;
}  // namespace two_hop
namespace one_shot {
extern const Algorithm kAlgorithm;
}
namespace flat_ring {
extern const Algorithm kFlat, kFlatNaive;
}
namespace flat_tree {
extern const Algorithm kAlgorithm;
}

std::span<const Algorithm> algorithms() {
  static const std::array table{two_hop::kTwoHop,       two_hop::kTwoHopTree,  two_hop::kTwoHopLog,  two_hop::kNodeRing,
                                two_hop::kNodeRingTree, two_hop::kNodeRingLog, one_shot::kAlgorithm, flat_ring::kFlat,
                                flat_ring::kFlatNaive,  flat_tree::kAlgorithm};
  return table;
}

double busiest_bytes_out_per_byte(const Algorithm& algorithm, const Request& request) {
  double busiest = 0;
  for (int node = 0; node < request.cluster->nnodes(); ++node)
    busiest = std::max(busiest, algorithm.bytes_out_per_byte(request, node));
  return busiest;
}

int max_lanes(const Cluster& cluster) {
  return two_hop::kFirstShardLane + two_hop::kMaxLanesPerShard * cluster.max_local_size();
}

const Algorithm* find_algorithm(std::string_view name) {
  for (const Algorithm& a : algorithms())
    if (a.name == name) return &a;
  return nullptr;
}

const char* collective_name(Collective c) {
  switch (c) {
    case Collective::kAllReduce:
      return "AllReduce";
    case Collective::kReduceScatter:
      return "ReduceScatter";
    case Collective::kAllGather:
      return "AllGather";
    case Collective::kBroadcast:
      return "Broadcast";
  }
  return "?";
}

const char* step_name(StepKind k) {
  switch (k) {
    case StepKind::kCopy:
      return "Copy";
    case StepKind::kReduce:
      return "Reduce";
    case StepKind::kPut:
      return "Put";
    case StepKind::kSent:
      return "Sent";
    case StepKind::kArrive:
      return "Arrive";
    case StepKind::kRelease:
      return "Release";
    case StepKind::kSignal:
      return "Signal";
    case StepKind::kWait:
      return "Wait";
  }
  return "?";
}

}  // namespace twohop
