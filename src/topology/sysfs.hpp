// What the kernel says in /sys of PCI devices, RDMA ports and network interfaces, and hwloc does not pass on.
#pragma once

#include <string>

#include "topology/machine.hpp"

namespace twohop::topology {

/// Completes a live machine: PCI classes, NUMA nodes and link rates; state, rate, layer, GUID and interface of RDMA
/// ports; RDMA devices and interfaces that hwloc leaves out (virtual ones, bonds), with their kind. `sys_root` is
/// "/sys" or a copy of it.
void add_sysfs(Machine& machine, const std::string& sys_root);

}  // namespace twohop::topology
