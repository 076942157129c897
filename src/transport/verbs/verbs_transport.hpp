// The verbs transport as the rest of the library sees it: made from the options, without a verbs header.
#pragma once

#include <memory>

#include "base/options.hpp"
#include "transport/endpoint.hpp"
#include "transport/rail_plan.hpp"

namespace twohop::verbs {

/// Over the system's RDMA devices. Errors: twohopInvalidArgument for a variable that does not fit, else no device is
/// usable.
Result<std::unique_ptr<Endpoint>> make_endpoint(int rank, const Options& options, const Secret& secret,
                                                const RailPlan& plan);

/// Over the emulated device.
Result<std::unique_ptr<Endpoint>> make_softnic_endpoint(int rank, const Options& options, const Secret& secret);

}  // namespace twohop::verbs
