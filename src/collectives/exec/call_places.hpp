// The addresses of one call: from its arguments and its layout.
#pragma once

#include "collectives/exec/call.hpp"
#include "collectives/exec/chunk_address.hpp"
#include "collectives/plan/layout.hpp"

namespace twohop {

/// For calls of even number: `half` is the caller's to set.
inline CallPlaces places_of(const Call& call, const Frame& frame, const Layout& layout, const LayoutLimits& limits) {
  return {.extents = layout.extents(),
          .send = static_cast<const std::byte*>(call.send),
          .recv = static_cast<std::byte*>(call.recv),
          .window_bytes = limits.window_bytes,
          .inbox_bytes = limits.inbox_bytes,
          .slots = frame.slots,
          .put_slots = frame.put_slots,
          .chunks_per_put = frame.chunks_per_put};
}

}  // namespace twohop
