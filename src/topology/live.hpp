// The machine that this process runs on: libhwloc's tree, completed by sysfs (rates, states, link widths, what is
// virtual) and by NVML, loaded at run time, where there is one (numbers, UUIDs and capability of NVIDIA GPUs, their
// NVLinks).
#pragma once

#include <string>

#include "base/result.hpp"
#include "topology/machine.hpp"

namespace twohop::topology {

struct LiveOptions {
  std::string sys_root = "/sys";                   // another place in tests
  std::string nvml_library = "libnvidia-ml.so.1";  // empty: without NVML
};

/// Takes some milliseconds to some hundreds of them; call it once. What is missing (no sysfs, no NVML) leaves things
/// unknown and is an error only where hwloc itself fails.
Result<Machine> read_live_machine(const LiveOptions& options = {});

/// hwloc's XML of this machine; the first step of the above.
Result<std::string> live_hwloc_xml();

}  // namespace twohop::topology
