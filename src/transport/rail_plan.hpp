// Which ports should this rank use, as the machine's topology says? Chosen above the transport; a transport that has no
// such ports ignores it. TWOHOP_IB_HCA comes before it.
#pragma once

#include <string>
#include <vector>

namespace twohop {

struct PlannedRail {
  std::string device;  // "mlx5_0"
  int port = 1;
  int number = -1;  // of the rail in the job: the same on all nodes
  bool own = true;  // false: used only towards ranks that own none of this rank's
};

/// In the order in which they should be used.
using RailPlan = std::vector<PlannedRail>;

}  // namespace twohop
