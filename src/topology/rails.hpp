// Which ports are this machine's rails, which GPU uses which, and why? From the graph and the paths alone, so that a
// file read on a desk gives the same answer as the machine itself.
//
//   1. Ports that can be rails at all: usable_ports.hpp.
//   2. Each GPU wants the ports of its nearest path class. Where none is near, the far ones, with a warning.
//   3. GPUs are spread over equally near ports so that each is loaded alike (balance.hpp); ports left over go to the
//      GPUs that have them nearest. Ports that no GPU has nearest (storage, management) are no rails.
//   4. Rails are numbered along the GPUs, so that equal machines number them equally whatever the ports are called.
#pragma once

#include <string>
#include <vector>

#include "topology/machine.hpp"
#include "topology/paths.hpp"
#include "topology/usable_ports.hpp"

namespace twohop::topology {

struct Rail {
  int number = 0;
  int net = kNone;        // index in Machine::nets
  std::vector<int> gpus;  // indexes in Machine::gpus
  std::string reason;
};

struct GpuRails {
  PathClass path = PathClass::kSys;  // to its rails
  std::vector<int> rails;            // numbers
  std::string reason;
};

struct RailChoice {
  std::vector<Rail> rails;           // [i].number == i
  std::vector<GpuRails> assignment;  // by GPU
  std::vector<RejectedPort> rejected;
  std::vector<int> sockets;           // interfaces that TCP can use
  bool verbs = true;                  // false: the rails need another provider than verbs
  std::vector<std::string> warnings;  // what costs speed or cannot be decided
  std::vector<std::string> notes;     // worth knowing
};

/// Machine::gpus indexes in the order of GPU numbers, as the vendors' tools count; files list them in any order.
std::vector<int> by_index(const Machine& machine);

RailChoice choose_rails(const Machine& machine, const Paths& paths);

}  // namespace twohop::topology
