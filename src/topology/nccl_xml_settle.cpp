// What the elements of an NCCL XML mean together: which device a link ends at, which entries are the same device, and
// which PCI devices are the GPUs and NICs of a vendor's file.
#include <algorithm>
#include <climits>
#include <map>

#include "topology/bus_id.hpp"
#include "topology/classify.hpp"
#include "topology/nccl_xml_parts.hpp"

namespace twohop::topology {
namespace {

/// By what links name them. Of several GPUs at one bus id it is the first by number, wherever the file has it: a file
/// with the same GPUs in another order says the same.
std::map<BusId, int> gpus_by_bus(const Machine& m) {
  const auto key = [&](int i) {
    const Gpu& gpu = m.gpus[static_cast<size_t>(i)];
    return std::pair(gpu.index, gpu.mlopart);
  };
  std::map<BusId, int> gpus;
  for (int i = 0; i < static_cast<int>(m.gpus.size()); ++i) {
    const int pci = m.gpus[static_cast<size_t>(i)].pci;
    const auto [at, is_new] = gpus.emplace(m.pci[static_cast<size_t>(pci)].bus, i);
    if (!is_new && key(i) < key(at->second)) at->second = i;
  }
  return gpus;
}

/// After name_gpus. The bus ids that stand for a switch and a CPU are no GPU's; any other that is a GPU's means that
/// GPU, whatever class is written beside it.
void resolve_links(NcclParts& parts) {
  Machine& m = parts.machine;
  const std::map<BusId, int> gpus = gpus_by_bus(m);
  std::map<BusId, int> missing;
  for (NcclLink& found : parts.links) {
    GpuLink& link = found.link;
    const auto peer = found.target ? gpus.find(*found.target) : gpus.end();
    const bool at_switch = found.target == kSwitchTarget;
    if (link.kind == GpuLinkKind::kC2c || found.target == kCpuTarget) {
      link.peer = kNone;
    } else if (!at_switch && peer != gpus.end()) {
      link.peer = peer->second;
    } else if (at_switch || is_nvswitch_class(found.target_class)) {
      link.to_switch = true;
    } else if (found.target_class != kCpuClass) {
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
  m.nets = std::move(nets);
}

/// In the order in which they are written, which joining has changed.
void sort_nets(Machine& m) {
  const auto last_if_none = [](int index) { return index == kNone ? INT_MAX : index; };
  const auto key = [&](const NetPort& net) { return std::pair(last_if_none(net.numa), last_if_none(net.pci)); };
  std::stable_sort(m.nets.begin(), m.nets.end(), [&](const NetPort& a, const NetPort& b) { return key(a) < key(b); });
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
  name_gpus(m);
  resolve_links(parts);
  join_repeated_nets(m);
  sort_nets(m);
  number_nets(m);
  sort_gpus(m);
  note_missing_links(m);
  if (m.gpus.empty() && m.nets.empty() && !m.pci.empty())
    add_note(m, Note::Level::kWarning,
             fmt::format("{}: {} PCI devices without a class: neither GPUs nor NICs can be told from it", m.source,
                         m.pci.size()));
  return std::move(m);
}

}  // namespace twohop::topology
