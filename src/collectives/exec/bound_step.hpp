// One step of a bound program, as host and device code read it: plain data, no owner of anything.
#pragma once

#include <cstddef>
#include <cstdint>

#include "collectives/plan/schedule.hpp"

namespace twohop {

struct BoundRef {
  Space space = Space::kInput;
  int16_t raw_local = -1;     // index on the node of the rank whose unscaled contribution this is
  uint16_t part = 0;          // inbox: chunk of the put
  uint32_t first_slot = 0;    // window: of the area
  std::byte* base = nullptr;  // window, inbox: of the half of even calls
  Linear index;
};

/// The sources of a step; they lie in the schedule.
struct BoundSources {
  const BoundRef* first = nullptr;
  uint32_t count = 0;

  constexpr size_t size() const { return count; }
  constexpr const BoundRef& operator[](size_t i) const { return first[i]; }
};

struct BoundStep {
  StepKind kind = StepKind::kSignal;
  bool final = false;
  uint16_t shard = 0;
  uint32_t chunk = 0;
  uint16_t lane = 0;   // kWait
  int16_t local = -1;  // kWait: index on the node
  uint32_t link = 0;   // kPut, kSent, kArrive, kRelease: index in the endpoint
  // kPut: the number of the link's inbox among those that this rank puts into, and the links that lead there too.
  uint32_t inbox = 0, first_sharing = 0, sharing = 1;
  const uint64_t* counter = nullptr;  // kWait
  Linear target;
  BoundRef dst;
  BoundSources srcs;
};

}  // namespace twohop
