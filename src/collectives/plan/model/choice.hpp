// Choice: how a call is to be run; what the tuner chooses and a prediction is made for.
#pragma once

#include <cstdint>

#include "collectives/plan/algorithm.hpp"

namespace twohop {

struct Choice {
  const Algorithm* algorithm = nullptr;
  uint64_t chunk_bytes = 128 << 10;  // at most
  int channels = 1;                  // at most
  uint32_t batch = 64;               // work requests per doorbell, at most
  bool operator==(const Choice&) const = default;
};

}  // namespace twohop
