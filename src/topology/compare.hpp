// Does a topology file describe the machine that it is used on? And what of both is to be believed?
#pragma once

#include <vector>

#include "topology/machine.hpp"

namespace twohop::topology {

struct Comparison {
  std::vector<Note> notes;  // every contradiction, the first of many alike
  bool credible = true;  // every GPU and NIC of the file exists here and is of its kind, and no switch spans NUMA nodes
};

/// `file` may come from any source with a PCI tree. A source without one (a matrix) is never credible: nothing ties its
/// devices to those of this machine.
Comparison compare(const Machine& file, const Machine& live);

struct Reconciled {
  Machine machine;  // its notes begin with those of the comparison
  bool file_used = false;
};

/// A credible file gives the tree: vendors know the switches that a virtual machine does not show. The kernel gives all
/// the rest: NUMA nodes and CPU affinity, names, state and rate of ports, link rates, GPUs' numbers, NVLinks, and
/// devices that the file lacks. A file that is not credible is not used.
Reconciled reconcile(const Machine& file, const Machine& live);

}  // namespace twohop::topology
