// Which network carries the data between nodes? TWOHOP_NET decides; by default the best that works here.
#pragma once

#include <memory>

#include "base/options.hpp"
#include "transport/endpoint.hpp"
#include "transport/rail_plan.hpp"

namespace twohop {

/// verbs, tcp or softnic as options.net says; "auto" is verbs where an RDMA device is usable and tcp elsewhere, with a
/// line in the log that says why. The emulated device is never chosen unless asked for by name. `plan` is for verbs.
Result<std::unique_ptr<Endpoint>> make_endpoint(int rank, const Options& options, const Secret& secret,
                                                const RailPlan& plan);

}  // namespace twohop
