// The machine, read once per host: looking at the PCI configuration of every device takes milliseconds each and is
// serialised by the kernel, so that many ranks that all look wait for each other.
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "base/options.hpp"
#include "bootstrap/local_exchange.hpp"

namespace twohop {

/// What each rank tells about itself before. Ranks of the host with a file of their own (TWOHOP_TOPO_FILE) keep out of
/// it.
nlohmann::json host_rank_message(const Options& options, const LocalExchange& exchange);

/// The lowest rank of the host that has no file reads the machine, unless this process knows it already, and hands it
/// to those that do not. `all` are the messages by rank. Errors: a message that cannot be read. A hand-over that fails
/// is none: the rank will read the machine itself.
Result<> share_topology_of_host(int rank, const std::vector<nlohmann::json>& all, const Options& options,
                                LocalExchange& exchange, const Secret& secret, Deadline deadline);

}  // namespace twohop
