// Cores: which rank runs when a machine has fewer cores than ranks?
//
// A rank that has something to do takes a free core or queues for one; it keeps it until it has nothing to do, or, when
// others queue, until its slice is over. Changing ranks takes time. With a core for every rank nobody queues.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "collectives/plan/model/cost_program.hpp"
#include "collectives/plan/model/network_model.hpp"

namespace twohop {

class Cores {
 public:
  Cores(const CostProgram& program, const NetworkModel& model) : switch_us_(model.switch_us) {
    const int64_t per = model.nodes_per_machine;
    // A folded node stands for a machine of its own, or for its share of one.
    const int64_t nodes_here = program.folded ? 1 : per == 0 ? program.nodes : per;
    const int64_t machines = (program.nodes + nodes_here - 1) / nodes_here;
    machines_.resize(static_cast<size_t>(machines));
    for (const CostRank& r : program.ranks) {
      machine_of_.push_back(static_cast<int32_t>(r.node / nodes_here));
      ++machines_[static_cast<size_t>(machine_of_.back())].ranks;
    }
    for (Machine& m : machines_) m.cores = model.cores;
  }

  bool shared(int rank) const { return of(rank).ranks > of(rank).cores; }
  bool contended(int rank) const { return !of(rank).queue.empty(); }
  double switch_us(int rank) const { return shared(rank) ? switch_us_ : 0; }
  /// True when the rank has a core now; else it queues.
  bool take(int rank) {
    Machine& m = of(rank);
    if (m.ranks <= m.cores || m.running < m.cores) {
      ++m.running;
      return true;
    }
    m.queue.push_back(rank);
    return false;
  }
  /// The rank that has the core from now on, or -1.
  int give(int rank) {
    Machine& m = of(rank);
    if (m.queue.empty()) {
      --m.running;
      return -1;
    }
    const int next = m.queue.front();
    m.queue.pop_front();
    return next;
  }
  /// Puts the rank last in the queue and says who is first.
  int rotate(int rank) {
    of(rank).queue.push_back(rank);
    return give(rank);
  }

 private:
  struct Machine {
    int64_t ranks = 0, cores = 1, running = 0;
    std::deque<int> queue;
  };
  Machine& of(int rank) { return machines_[static_cast<size_t>(machine_of_[static_cast<size_t>(rank)])]; }
  const Machine& of(int rank) const { return machines_[static_cast<size_t>(machine_of_[static_cast<size_t>(rank)])]; }

  double switch_us_;
  std::vector<int32_t> machine_of_;
  std::vector<Machine> machines_;
};

}  // namespace twohop
