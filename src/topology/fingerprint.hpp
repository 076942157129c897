// Are two hosts the same machine, as far as a plan depends on it? Compared at init; machines that differ are accepted
// and reported.
#pragma once

#include <cstdint>
#include <string>

#include "topology/machine.hpp"

namespace twohop::topology {

struct Fingerprint {
  uint64_t hash = 0;    // stable over hosts, runs and builds of one version
  std::string summary;  // one line for people: "8 x NVIDIA H100 (NVLink), 8 x RDMA 400 Gbit/s, 2 NUMA nodes"
  bool operator==(const Fingerprint&) const = default;
};

/// Counts and kinds of GPUs and network ports, their rates, links, and the shape of the tree above them. Not what may
/// differ between equal machines: bus ids, UUIDs, GUIDs, names, the state of a port, idle devices.
Fingerprint fingerprint(const Machine& machine);

}  // namespace twohop::topology
