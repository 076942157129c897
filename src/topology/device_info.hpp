// What tools print of RDMA devices: ibv_devinfo, ibstat, ibdev2netdev, show_gids. Read line by line; lines that say
// nothing here are skipped, whatever they are.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "topology/machine.hpp"

namespace twohop::topology {

struct GidEntry {
  int index = kNone;
  std::string gid;   // as written
  std::string ipv4;  // empty: none
  bool roce_v2 = false;
  std::string interface;
};

/// One port of one device, as far as a text tells.
struct PortInfo {
  std::string device;
  int port = 1;
  LinkState state = LinkState::kUnknown;
  LinkLayer layer = LinkLayer::kUnknown;
  double gbit_per_s = 0;
  uint64_t guid = 0;  // of the card
  std::string interface;
  std::vector<GidEntry> gids;
};

bool looks_like_device_info(std::string_view text);

/// Texts of several tools may follow each other; what they say of one port is put together. A text without any port is
/// an error.
Result<std::vector<PortInfo>> read_device_info(std::string_view text, const std::string& source);

/// Fills in what the machine does not know of its ports; what both know and differs becomes a note, and the text is
/// believed. Ports that the machine lacks are added without a place in the PCI tree.
void add_device_info(Machine& machine, const std::vector<PortInfo>& ports);

}  // namespace twohop::topology
