// What is a port: its GIDs, whether it is up, and when its wire is free?
#pragma once

#include <optional>

#include "softnic/layout.hpp"

namespace softnic {

struct PortName {
  uint32_t host;
  uint32_t device;
};

// `net`: the subnet that the port lies in.
ibv_gid gid_of(PortName port, uint32_t net, GidKind kind);
bool is_v2(GidKind kind);
uint16_t lid_of(PortName port);
// Which port of the domain has this GID, or this LID?
std::optional<PortName> port_with_gid(const SharedState& state, const ibv_gid& gid);
std::optional<PortName> port_with_lid(uint16_t lid);

bool port_is_up(const SharedPort& port, uint64_t now);
// When the port will change next; kNever: not any more.
uint64_t next_port_change(const SharedPort& port, uint64_t now);

// Books a wire from `earliest` on; returns when the booking ends.
uint64_t reserve(std::atomic<uint64_t>* free_ns, uint64_t earliest, uint64_t duration_ns);

}  // namespace softnic
