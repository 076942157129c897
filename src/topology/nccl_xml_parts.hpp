// What the parts of the NCCL XML reader and writer share: a machine whose links are not resolved yet, and the rules
// that say what is implied where an attribute is missing.
#pragma once

#include "topology/enums.hpp"
#include "topology/finish.hpp"
#include "topology/machine.hpp"
#include "topology/xml_document.hpp"

namespace twohop::topology {

struct NcclLink {
  GpuLink link;  // without its peer
  std::optional<BusId> target;
  uint32_t target_class = 0;
};

struct NcclParts {
  Machine machine;
  std::vector<NcclLink> links;
};

/// Resolves links, joins repeated entries, and finds GPUs and NICs by class where a vendor's file has no <gpu> or
/// <net>.
Machine settle(NcclParts parts);

/// kind, layer and bond as the name, port and PCI device imply them; `device` may be null.
void set_inferred(NetPort& net, const PciNode* device);

/// How a target that is no device of the file is written.
constexpr BusId kSwitchTarget = {0xfffffff, 0xff, 0xff, 0};
constexpr BusId kCpuTarget = {0xfffffff, 0xff, 0xfe, 0};
constexpr uint32_t kSwitchClass = 0x068000, kCpuClass = 0x068001;

}  // namespace twohop::topology
