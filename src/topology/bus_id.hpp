// Bus ids as text, in the forms that kernels, drivers and files write them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "topology/machine.hpp"

namespace twohop::topology {

/// "0000:3b:00.0"; also "3b:00.0" (domain 0), "00000000:3B:00.0" (NVML), "fffffff:ff:ff.0" (NCCL's name of an
/// NVSwitch). Nothing for any other text.
std::optional<BusId> parse_bus_id(std::string_view text);

/// As the kernel writes it: "0000:3b:00.0", with more digits where the domain needs them.
std::string to_string(const BusId& bus);

}  // namespace twohop::topology
