// hwloc's XML (lstopo --of xml), of hwloc 1, 2 and 3: read. The live machine is read through the same door (live.hpp).
//
// From it come NUMA nodes, the whole PCI tree with its ports, GPUs (by PCI vendor and class; CUDA, NVML and RSMI
// objects add index, model, UUID), RDMA devices with their ports' state, interfaces, and NVLink or xGMI bandwidths
// where NVML or RSMI measured them. What it has no word for, such as the rate of a port, stays unknown.
#pragma once

#include <string>
#include <string_view>

#include "base/result.hpp"
#include "topology/machine.hpp"

namespace twohop::topology {

class XmlDocument;

/// `document` has <topology> as its root; read_hwloc_xml(text) makes sure.
Result<Machine> read_hwloc_xml(const XmlDocument& document);
/// `source` is the file's name, for messages and Machine::source.
Result<Machine> read_hwloc_xml(std::string_view text, std::string source);

}  // namespace twohop::topology
