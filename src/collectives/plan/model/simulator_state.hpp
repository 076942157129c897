// What the simulator keeps of each rank, lane and link while it runs.
#pragma once

#include <limits>
#include <queue>
#include <vector>

#include "collectives/plan/model/count_log.hpp"
#include "collectives/plan/model/simulator.hpp"

namespace twohop::sim {

constexpr double kNever = std::numeric_limits<double>::infinity();

struct Lane {
  const std::vector<CostStep>* steps = nullptr;  // null: done
  size_t pc = 0;
  int64_t round = 0;
  double ready_us = 0;  // kNever: waits for a count that has not been reached
  int16_t channel = 0, number = 0;
  CountLog signals;
};

/// What a rank finds when it looks at the network.
struct Notice {
  enum class Kind : uint8_t { kArrived, kSent, kCredit };
  double at_us = 0;
  uint64_t order = 0;  // of equal times: first made, first noticed
  Kind kind = Kind::kArrived;
  int32_t link = 0;  // index among all channels
  int32_t credits = 0;
  uint64_t bytes = 0;
  bool operator>(const Notice& o) const { return at_us != o.at_us ? at_us > o.at_us : order > o.order; }
};

struct Posted {
  int32_t link = 0;
  int16_t channel = 0, lane = 0;
  int32_t round = 0;
  uint16_t shard = 0;
  uint32_t chunk = 0;
  uint64_t bytes = 0;
};

struct Rank {
  enum class State : uint8_t { kIdle, kQueued, kRunning };
  State state = State::kIdle;
  uint64_t token = 0;       // the event that counts; older ones are stale
  double wake_us = kNever;  // kIdle: when the event is due
  double slice_us = 0;      // kRunning: since when
  size_t first_lane = 0, lanes = 0, cursor = 0, lanes_left = 0;
  bool moved = false;  // in this sweep
  std::vector<Posted> posted;
  std::vector<int32_t> released;  // links, one entry a credit
  uint64_t unsent = 0;
  std::priority_queue<Notice, std::vector<Notice>, std::greater<>> notices;
};

struct Link {
  CountLog arrived, sent, released;
};

struct Event {
  double at_us = 0;
  uint64_t token = 0;
  int32_t rank = 0;
  bool operator>(const Event& o) const { return at_us != o.at_us ? at_us > o.at_us : token > o.token; }
};

}  // namespace twohop::sim
