// Which ports of a machine may be rails at all, and what is wrong with the others? Kind, link state, bonds, functions
// of one card, link layer, speed. How near a port is to a GPU plays no part here; that is rails.hpp's.
#pragma once

#include <string>
#include <vector>

#include "topology/machine.hpp"

namespace twohop::topology {

struct RejectedPort {
  int net = kNone;  // index in Machine::nets
  std::string reason;
};

struct UsablePorts {
  std::vector<int> ports;  // indexes in Machine::nets: one link layer, one class of speed; in natural order of names
  bool verbs = true;       // false: RDMA, but by a provider that is not verbs (EFA, Slingshot)
  std::vector<RejectedPort> rejected;
  std::vector<int> sockets;  // physical interfaces that TCP can use
  std::vector<std::string> warnings;
};

UsablePorts find_usable_ports(const Machine& machine);

/// "mlx5_0"; "mlx4_0:2" where the device has several ports in this machine.
std::string port_name(const Machine& machine, int net);

/// Link layer as stated, else as the PCI class or a predictable name (ibp3s0, rocep3s0) shows.
LinkLayer layer_of(const Machine& machine, const NetPort& port);

/// The same plug-in card: one guid, or functions of one PCI device.
bool same_card(const Machine& machine, const NetPort& a, const NetPort& b);

/// mlx5_2 before mlx5_10.
bool natural_less(const std::string& a, const std::string& b);

}  // namespace twohop::topology
