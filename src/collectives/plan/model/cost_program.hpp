// CostProgram: the programs of all ranks in the form that the simulator walks: steps without addresses, links with both
// ends. Made once per (algorithm, cluster, collective); the size of the data comes in later.
//
// Symmetry. Where every node does what every other does, with peers at the same distance, one node stands for all:
// what it sends comes in at the same moment as what it receives from a node like itself. Such a program is "folded": it
// has the ranks of one node, and its links lead back to them. Whether a cluster can be folded is decided by comparing
// nodes, never by the algorithm's name; all nodes are compared while that is cheap, else a few.
#pragma once

#include <memory>
#include <vector>

#include "collectives/plan/algorithm.hpp"

namespace twohop {

/// What a rank's core is busy with.
enum class Activity : uint8_t {
  kReduce,   // copies and reductions that read the user's input
  kFold,     // reductions of what other nodes sent
  kSpread,   // copies into the user's output
  kForward,  // copies between windows
  kPost,     // handing puts and credits to the network
  kNotice,   // taking arrivals, credits and completions from it
  kSweep,    // looking at the network
  kSwitch    // waiting for a core that changes ranks
};
constexpr int kActivities = 8;
const char* activity_name(Activity w);

struct CostStep {
  StepKind kind = StepKind::kSignal;
  Activity work = Activity::kForward;
  uint8_t user_operands = 0;  // operands in the user's buffers
  uint16_t srcs = 0;
  uint16_t shard = 0;
  uint16_t lane = 0;  // kWait
  uint32_t chunk = 0;
  int32_t rank = -1;  // kWait: index in CostProgram::ranks
  int32_t link = -1;  // index in CostProgram::links
  Linear target;
};

struct CostLink {
  int32_t src = 0, dst = 0;            // indices in CostProgram::ranks
  int32_t src_rank = 0, dst_rank = 0;  // ranks of the cluster; folded: one pair of all that this link stands for
  uint16_t tag = 0;
  int64_t puts_per_round = 0;
};

struct CostRank {
  int32_t rank = 0;  // of the cluster
  int32_t node = 0;  // among the nodes that are simulated
  int32_t local = 0;
  int32_t links = 0;  // that start or end here
  std::vector<std::vector<CostStep>> lanes;
};

struct CostProgram {
  Frame frame;
  std::shared_ptr<const Cluster> cluster;
  std::vector<CostRank> ranks;
  std::vector<CostLink> links;
  int nodes = 1;        // that are simulated
  bool folded = false;  // one node stands for all
  uint64_t steps = 0;   // of a round, of all ranks
};

enum class Symmetry : uint8_t { kAuto, kOff };

/// Pre: the algorithm supports the cluster and the collective.
CostProgram make_cost_program(const Algorithm& algorithm, std::shared_ptr<const Cluster> cluster, Collective collective,
                              const Depths& depths = {}, Symmetry symmetry = Symmetry::kAuto);

}  // namespace twohop
