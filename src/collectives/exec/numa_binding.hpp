// Where a communicator's own threads and memory belong: the NUMA node of its GPU or rail. Nothing is bound where there
// is one node only, where nothing says which, or where TWOHOP_NUMA_BIND=0.
#pragma once

#include <span>
#include <vector>

#include "topology/machine.hpp"

namespace twohop {

struct NumaBinding {
  int node = -1;                         // as the kernel numbers it; -1: none
  std::vector<topology::CpuRange> cpus;  // of the node
  explicit operator bool() const { return node >= 0; }
  bool operator==(const NumaBinding&) const = default;
};

/// Of `numa` (index in machine.numas, kNone: none).
NumaBinding numa_binding(const topology::Machine& machine, int numa);

/// Moves the calling thread, one of ours, to the node's CPUs, as far as the process may use them: a job's own CPU mask
/// is never left. False where nothing was changed.
bool bind_this_thread(const NumaBinding& binding);

/// Prefers the node for pages of `memory` that nobody has touched yet. False where the kernel refuses; that costs speed
/// only.
bool bind_memory(const NumaBinding& binding, std::span<std::byte> memory);

/// The index in machine.numas of the node that holds all CPUs this process may use; kNone where there are several.
int numa_of_this_process(const topology::Machine& machine);

}  // namespace twohop
