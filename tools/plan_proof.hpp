// Can an algorithm be proved on a cluster, of any size, in seconds? For `twohop plan --check`.
//
// Small clusters are proved rank by rank. On larger ones node 0 stands for all where the programs are alike
// (check_symmetry.hpp); where they are not, all ranks are run as long as that stays bounded.
#pragma once

#include <string>

#include "collectives/plan/algorithm.hpp"

namespace twohop::cli {

struct ShapeProof {
  bool proved = false;
  std::string text;  // how it was proved; or the fault; or why it is too large, and what to do
};

/// `most_steps`: of all ranks together, that a run of every rank may take.
ShapeProof prove_shape(const Cluster& cluster, const Algorithm& algorithm, Collective collective,
                       uint64_t most_steps = 10'000'000);

}  // namespace twohop::cli
