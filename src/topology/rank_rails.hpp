// Which rails does each of a host's ranks use? Every rail has a rank, every rank has a rail, and a rank's own come
// first. Pure: the same on all ranks of a host.
#pragma once

#include <span>
#include <vector>

#include "topology/rails.hpp"

namespace twohop::topology {

struct RankPlace {
  int gpu = kNone;   // index in Machine::gpus
  int numa = kNone;  // index in Machine::numas: where the rank's threads and memory belong; kNone: nothing says
  /// Rail numbers: the rank's own, ascending, then the others, which it uses only towards a rank that owns none of its.
  std::vector<int> rails;
  size_t own = 0;
};

/// By local rank. `cpu_numas`: index in Machine::numas of the CPUs that each rank may use, kNone where they are on
/// several or not known. Local rank l works with GPU l; GPUs beyond the last rank, and their rails, are dealt out in
/// turn.
std::vector<RankPlace> place_ranks(const Machine& machine, const RailChoice& choice, std::span<const int> cpu_numas);

}  // namespace twohop::topology
