// What the elements of an NCCL XML mean together: which device a link ends at, which entries are the same device, and
// which PCI devices are the GPUs and NICs of a vendor's file.
#include <algorithm>
#include <map>

#include "topology/bus_id.hpp"
#include "topology/classify.hpp"
#include "topology/nccl_xml_parts.hpp"

namespace twohop::topology {
namespace {

void resolve_links(NcclParts& parts) {
  Machine& m = parts.machine;
  std::map<BusId, int> gpus;
  for (size_t i = 0; i < m.gpus.size(); ++i)
    gpus.emplace(m.pci[static_cast<size_t>(m.gpus[i].pci)].bus, static_cast<int>(i));
  std::map<BusId, int> missing;
  for (NcclLink& found : parts.links) {
    GpuLink& link = found.link;
    const auto peer = found.target ? gpus.find(*found.target) : gpus.end();
    if (link.kind == GpuLinkKind::kC2c || found.target_class == kCpuClass || found.target == kCpuTarget) {
      link.peer = kNone;
    } else if (peer != gpus.end()) {
      link.peer = peer->second;
    } else if (is_nvswitch_class(found.target_class) || found.target == kSwitchTarget) {
      link.to_switch = true;
    } else {
      if (found.target) ++missing[*found.target];
      continue;
    }
    m.links.push_back(link);
  }
  for (const auto& [bus, count] : missing)
    add_note(m, Note::Level::kWarning,
             fmt::format("{}: {} link(s) end at {}, which is no GPU of the file; they are not used", m.source, count,
                         to_string(bus)));
  merge_links(m);
}

/// One entry per (name, port). An interface that is listed under several <cpu> belongs to none of them.
void join_repeated_nets(Machine& m) {
  std::map<std::pair<std::string, int>, size_t> known;
  std::vector<NetPort> nets;
  size_t repeated = 0;
  for (NetPort& net : m.nets) {
    const auto [at, is_new] = known.emplace(std::pair(net.name, net.port), nets.size());
    if (is_new) {
      nets.push_back(std::move(net));
      continue;
    }
    ++repeated;
    NetPort& first = nets[at->second];
    if (first.pci == kNone && net.pci != kNone) {
      first.pci = net.pci;
      first.numa = net.numa;
    } else if (net.pci != kNone && net.pci != first.pci) {
      add_note(
          m, Note::Level::kWarning,
          fmt::format("{}: {} port {} is listed at two PCI devices; the first is used", m.source, net.name, net.port));
    } else if (first.pci == kNone && net.numa != first.numa) {
      first.numa = kNone;
    }
  }
  if (repeated > 0)
    add_note(m, Note::Level::kInfo,
             fmt::format("{}: {} entries of <net> repeat a name and port seen before; each name and port is one device",
                         m.source, repeated));
  std::stable_partition(nets.begin(), nets.end(),
                        [](const NetPort& net) { return net.pci != kNone || net.numa != kNone; });
  m.nets = std::move(nets);
}

std::vector<bool> nodes_with_children(const Machine& m) {
  std::vector<bool> has_child(m.pci.size());
  for (const PciNode& node : m.pci)
    if (node.parent != kNone) has_child[static_cast<size_t>(node.parent)] = true;
  return has_child;
}

void find_gpus_by_class(Machine& m) {
  const std::vector<bool> has_child = nodes_with_children(m);
  for (size_t i = 0; i < m.pci.size(); ++i) {
    const PciNode& node = m.pci[i];
    const bool vendor_known = node.vendor != 0 && node.vendor != 0xffff;
    if (!has_gpu_class(node.pci_class) || (vendor_known && !is_gpu(node)) || has_child[i]) continue;
    Gpu gpu;
    gpu.pci = static_cast<int>(i);
    gpu.numa = node.numa;
    gpu.vendor = vendor_of(node.vendor);
    m.gpus.push_back(gpu);
  }
}

void find_nics_by_class(Machine& m) {
  const std::vector<bool> has_child = nodes_with_children(m);
  for (size_t i = 0; i < m.pci.size(); ++i) {
    const PciNode& node = m.pci[i];
    if (!is_nic_class(node.pci_class) || has_child[i]) continue;
    NetPort net;
    net.name = to_string(node.bus);
    net.pci = static_cast<int>(i);
    net.numa = node.numa;
    net.kind = kind_of_nic_device(node);
    net.layer = layer_of(&node, "");
    m.nets.push_back(std::move(net));
  }
  if (!m.nets.empty())
    add_note(
        m, Note::Level::kInfo,
        fmt::format(
            "{}: the file has no <net> elements; its NICs are the PCI devices of a network class, and speed and state "
            "of their ports are not known",
            m.source));
}

}  // namespace

Machine settle(NcclParts parts) {
  Machine& m = parts.machine;
  if (m.gpus.empty()) find_gpus_by_class(m);
  if (m.nets.empty()) find_nics_by_class(m);
  resolve_links(parts);
  join_repeated_nets(m);
  number_nets(m);
  name_gpus(m);
  sort_gpus(m);
  note_missing_links(m);
  if (m.gpus.empty() && m.nets.empty() && !m.pci.empty())
    add_note(m, Note::Level::kWarning,
             fmt::format("{}: {} PCI devices without a class: neither GPUs nor NICs can be told from it", m.source,
                         m.pci.size()));
  return std::move(m);
}

}  // namespace twohop::topology
