// The simulator: how long does one call take? Walks the programs of all ranks event by event, as exec/ runs them.
//
// A rank is one thread. In a sweep every lane in turn goes on until it blocks or has signalled, put or released; at the
// end of a sweep what was put is handed to the network, and what the network has brought is noticed. A rank that finds
// nothing to do gives its core up until something that a lane waits for happens. Copies and reductions take the core's
// time, puts their rails'; slots and credits are waited for as in the real thing. The call begins at the same moment
// everywhere.
//
// The run is exact for its model: the same arguments give the same result, to the bit.
#pragma once

#include <array>
#include <vector>

#include "collectives/plan/layout.hpp"
#include "collectives/plan/model/cost_program.hpp"
#include "collectives/plan/model/network_model.hpp"

namespace twohop {

struct SimulatedSize {
  const Layout* layout = nullptr;
  uint64_t buffer_bytes = 0;  // of one rank's user buffers, both together, for what stays in cache
  int64_t rounds = 1;         // how many of the layout's are run
  uint32_t batch = 64;        // puts per doorbell, at most
  bool timeline = false;
};

/// Something that took time. On a core: rank, lane, work; on a rail: rank is the sender, rail >= 0.
struct Interval {
  double begin_us = 0, end_us = 0;
  int32_t rank = 0;
  int16_t channel = 0, lane = 0, rail = -1;
  Activity work = Activity::kSweep;
  int32_t round = 0;
  uint16_t shard = 0;
  uint32_t chunk = 0;
};

struct RankUse {
  std::array<double, kActivities> busy_us{};
  double end_us = 0;
  double total_busy_us() const;
};

struct SimulatedRun {
  double time_us = 0;
  std::vector<double> round_end_us;  // when the last rank has finished each round
  std::vector<RankUse> ranks;
  double wire_busy_us = 0;                     // of the busiest rail
  double wire_first_us = 0, wire_last_us = 0;  // first put begins, last put ends
  double retransmitted_share = 0;
  uint64_t puts = 0, doorbells = 0;
  uint64_t steps = 0;
  bool stuck = false;  // the programs wait for each other: never so for programs that the checker has passed
  std::vector<Interval> timeline;
};

SimulatedRun simulate(const CostProgram& program, const NetworkModel& model, const SimulatedSize& size);

}  // namespace twohop
