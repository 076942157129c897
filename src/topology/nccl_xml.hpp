// NCCL's topology XML (NCCL_TOPO_FILE, NCCL_TOPO_DUMP_FILE; RCCL's too): read and written.
//
//   <system><cpu numaid affinity ...><pci busid class ...><gpu .../><nic><net
//   .../></nic><pci>...</pci></pci></cpu></system>
//
// Dialects that are read: vendors' files, which have PCI classes and no <gpu> or <net>; xgmi and gcn; c2c; several
// <gpu> in one <pci>; NICs inside a host bridge; NVLink targets by bus id or by class only; numaid="-1"; no affinity;
// one interface repeated under each <cpu>.
#pragma once

#include <string>
#include <string_view>

#include "base/result.hpp"
#include "topology/machine.hpp"

namespace twohop::topology {

class XmlDocument;

/// `document` has <system> as its root; read_nccl_xml(text) makes sure.
Result<Machine> read_nccl_xml(const XmlDocument& document);
/// `source` is the file's name, for messages and Machine::source.
Result<Machine> read_nccl_xml(std::string_view text, std::string source);

/// What NCCL would have written, and attributes of our own (state, layer, uuid...) where NCCL has no place for what is
/// known; NCCL skips those. Reading it again gives the same machine, but for the ports of PCI switches (NCCL has one
/// element per switch). Machines without a PCI tree (from a matrix) are refused: they go into JSON.
Result<std::string> write_nccl_xml(const Machine& machine);

}  // namespace twohop::topology
