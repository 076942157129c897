// See algorithm.hpp: the table.
#include "collectives/plan/algorithm.hpp"

#include <array>

namespace twohop {

namespace two_hop {
extern const Algorithm kAlgorithm;
}
namespace one_shot {
extern const Algorithm kAlgorithm;
}
namespace flat {
extern const Algorithm kAlgorithm;
}
namespace flat_naive {
extern const Algorithm kAlgorithm;
}

std::span<const Algorithm> algorithms() {
  static const std::array table{two_hop::kAlgorithm, one_shot::kAlgorithm, flat::kAlgorithm, flat_naive::kAlgorithm};
  return table;
}

int max_lanes(const Cluster& cluster) {
  return 3 + 3 * cluster.max_local_size();
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
