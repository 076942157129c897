// What the parts of the hwloc XML reader share.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "topology/machine.hpp"
#include "topology/xml_document.hpp"

namespace twohop::topology {

struct OsDevice {
  pugi::xml_node object;
  int pci = kNone, numa = kNone;  // of the PCI device it belongs to
};

struct HwlocParts {
  Machine machine;
  int version = 2;
  std::vector<OsDevice> devices;
  std::map<std::string, int> pci_of_object;  // "PCIDev:449", "OSDev:802" -> index in Machine::pci
};

/// The value of the <info> of that name in an object; empty where there is none.
std::string info(pugi::xml_node object, const char* name);

/// What a link of that many gigabytes per second is made of. A rate can be had in several ways; the widest is taken.
void set_lanes(PciNode& pci, double gbytes_per_s);

void add_gpus(HwlocParts& parts);
void add_nets(HwlocParts& parts);
/// From the matrices NVLinkBandwidth and XGMIBandwidth.
void add_links(HwlocParts& parts, pugi::xml_node topology);

}  // namespace twohop::topology
