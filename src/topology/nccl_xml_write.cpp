// From a machine to NCCL's topology XML. Attributes that NCCL does not know are written only where they say something
// that a reader would not infer.
#include <algorithm>
#include <cmath>
#include <sstream>

#include "topology/bus_id.hpp"
#include "topology/classify.hpp"
#include "topology/cpu_set.hpp"
#include "topology/nccl_xml.hpp"
#include "topology/nccl_xml_parts.hpp"
#include "topology/text.hpp"

namespace twohop::topology {
namespace {

class Writer {
 public:
  explicit Writer(const Machine& machine)
      : m_(machine),
        children_(machine.pci.size() + 1),
        gpus_(machine.pci.size() + 1),
        nets_(machine.pci.size() + 1),
        links_(machine.gpus.size()),
        roots_(machine.numas.size() + 1),
        loose_nets_(machine.numas.size() + 1) {
    for (size_t i = 0; i < m_.gpus.size(); ++i) gpus_[slot(m_.gpus[i].pci)].push_back(static_cast<int>(i));
    for (const NetPort& net : m_.nets)
      (net.pci == kNone ? loose_nets_[slot(net.numa)] : nets_[slot(net.pci)]).push_back(&net);
    for (const GpuLink& link : m_.links) links_[static_cast<size_t>(link.gpu)].push_back(&link);
    for (size_t i = 0; i < m_.pci.size(); ++i) {
      const int node = static_cast<int>(i);
      if (!is_written(node)) continue;
      const int parent = written_parent(node);
      (parent == kNone ? roots_[slot(pci(node).numa)] : children_[slot(parent)]).push_back(node);
    }
  }

  std::string write() {
    pugi::xml_node system = document_.append_child("system");
    const bool amd = std::any_of(m_.gpus.begin(), m_.gpus.end(), [](const Gpu& gpu) { return !gpu.gcn.empty(); });
    set(system, "version", amd ? "2" : "1");
    for (size_t i = 0; i < m_.numas.size(); ++i) write_cpu(system, static_cast<int>(i));
    if (!roots_[slot(kNone)].empty() || !loose_nets_[slot(kNone)].empty()) write_cpu(system, kNone);
    std::ostringstream out;
    document_.save(out, "  ", pugi::format_indent | pugi::format_no_declaration, pugi::encoding_utf8);
    return out.str();
  }

 private:
  static void set(pugi::xml_node node, const char* name, const std::string& value) {
    node.append_attribute(name).set_value(value.c_str());
  }
  static void set(pugi::xml_node node, const char* name, int value) { set(node, name, std::to_string(value)); }
  static void set_if(bool wanted, pugi::xml_node node, const char* name, const std::string& value) {
    if (wanted) set(node, name, value);
  }
  static size_t slot(int index) { return static_cast<size_t>(index) + 1; }
  const PciNode& pci(int index) const { return m_.pci[static_cast<size_t>(index)]; }

  /// Ports and host bridges of a full tree have no element: NCCL would take each for a switch.
  bool is_written(int index) const {
    const PciNode& node = pci(index);
    return !node.is_port && !(node.host_bridge && node.pci_class == 0);
  }

  int written_parent(int index) const {
    int at = pci(index).parent;
    while (at != kNone && !is_written(at)) at = pci(at).parent;
    return at;
  }

  int host_bridge_of(int index) const {
    for (int at = pci(index).parent; at != kNone && !is_written(at); at = pci(at).parent)
      if (pci(at).host_bridge) return at;
    return kNone;
  }

  void write_cpu(pugi::xml_node system, int index) {
    pugi::xml_node cpu = system.append_child("cpu");
    if (index == kNone) {
      set(cpu, "numaid", kNone);
      set(cpu, "unlocated", 1);
    } else {
      write_numa(cpu, m_.numas[static_cast<size_t>(index)]);
    }
    for (const int root : roots_[slot(index)]) write_pci(cpu, root);
    pugi::xml_node nic;
    for (const NetPort* net : loose_nets_[slot(index)]) {
      if (!nic) nic = cpu.append_child("nic");
      write_net(nic, *net);
    }
  }

  static void write_numa(pugi::xml_node cpu, const NumaNode& numa) {
    set(cpu, "numaid", numa.os_index);
    set_if(!numa.cpus.empty(), cpu, "affinity", to_cpu_mask(numa.cpus));
    set_if(!numa.arch.empty(), cpu, "arch", numa.arch);
    set_if(!numa.vendor.empty(), cpu, "vendor", numa.vendor);
    if (numa.family != kNone) set(cpu, "familyid", numa.family);
    if (numa.model != kNone) set(cpu, "modelid", numa.model);
    if (numa.package != kNone) set(cpu, "package", numa.package);
  }

  void write_pci(pugi::xml_node parent, int index) {
    const PciNode& node = pci(index);
    pugi::xml_node element = parent.append_child("pci");
    const auto hex16 = [&](const char* name, uint16_t value) { set(element, name, fmt::format("{:#06x}", value)); };
    set(element, "busid", to_string(node.bus));
    set(element, "class", fmt::format("0x{:06x}", node.pci_class));
    hex16("vendor", node.vendor);
    hex16("device", node.device);
    hex16("subsystem_vendor", node.subsystem_vendor);
    hex16("subsystem_device", node.subsystem_device);
    set(element, "link_speed", node.gt_per_s > 0 ? plain_number(node.gt_per_s) + " GT/s PCIe" : "");
    set(element, "link_width", node.width);
    if (const int bridge = host_bridge_of(index); bridge != kNone)
      set(element, "host_bridge", to_string(pci(bridge).bus));
    for (const int gpu : gpus_[slot(index)]) write_gpu(element, gpu);
    write_nics_of(element, index);
    for (const int child : children_[slot(index)]) write_pci(element, child);
  }

  void write_nics_of(pugi::xml_node element, int index) {
    pugi::xml_node nic;
    for (const NetPort* net : nets_[slot(index)]) {
      if (!nic) nic = element.append_child("nic");
      write_net(nic, *net);
    }
  }

  void write_gpu(pugi::xml_node parent, int index) {
    const Gpu& gpu = m_.gpus[static_cast<size_t>(index)];
    pugi::xml_node element = parent.append_child("gpu");
    set(element, "dev", gpu.index);
    if (gpu.sm != kNone) set(element, "sm", gpu.sm);
    set_if(!gpu.gcn.empty(), element, "gcn", gpu.gcn);
    if (gpu.arch != kNone) set(element, "arch", gpu.arch);
    if (gpu.mlopart != kNone) set(element, "mlopart", gpu.mlopart);
    if (gpu.rank != kNone) set(element, "rank", gpu.rank);
    set(element, "gdr", gpu.gdr ? 1 : 0);
    set_if(!gpu.uuid.empty(), element, "uuid", gpu.uuid);
    set_if(!gpu.model.empty(), element, "model", gpu.model);
    bool has_c2c = false;
    for (const GpuLink* link : links_[static_cast<size_t>(index)]) {
      has_c2c |= link->kind == GpuLinkKind::kC2c;
      write_link(element, *link);
    }
    if (gpu.integrated != (!gpu.gdr && has_c2c)) set(element, "integrated", gpu.integrated ? 1 : 0);
  }

  void write_link(pugi::xml_node gpu, const GpuLink& link) {
    const char* name = link.kind == GpuLinkKind::kNvlink ? "nvlink" : link.kind == GpuLinkKind::kXgmi ? "xgmi" : "c2c";
    pugi::xml_node element = gpu.append_child(name);
    if (link.gbit_per_s > 0) set(element, "bw", plain_number(link.gbit_per_s * 1000 / 8 / link.count));
    if (link.kind != GpuLinkKind::kC2c) set(element, "target", to_string(target_of(link)));
    set(element, "count", link.count);
    if (link.kind != GpuLinkKind::kC2c) set(element, "tclass", fmt::format("0x{:06x}", target_class_of(link)));
  }

  BusId target_of(const GpuLink& link) const {
    if (link.to_switch) return kSwitchTarget;
    return link.peer == kNone ? kCpuTarget : pci(m_.gpus[static_cast<size_t>(link.peer)].pci).bus;
  }

  uint32_t target_class_of(const GpuLink& link) const {
    if (link.to_switch) return kSwitchClass;
    return link.peer == kNone ? kCpuClass : pci(m_.gpus[static_cast<size_t>(link.peer)].pci).pci_class;
  }

  void write_net(pugi::xml_node nic, const NetPort& net) {
    pugi::xml_node element = nic.append_child("net");
    set(element, "name", net.name);
    if (net.dev != kNone) set(element, "dev", net.dev);
    set(element, "latency", plain_number(net.latency_us));
    set(element, "speed", plain_number(net.gbit_per_s * 1000));
    set(element, "port", net.port);
    set(element, "guid", fmt::format("{:#x}", net.guid));
    set(element, "maxconn", net.max_connections);
    set(element, "gdr", net.gdr ? 1 : 0);
    if (net.collective) set(element, "coll", 1);
    NetPort implied = net;
    implied.layer = LinkLayer::kUnknown;
    set_inferred(implied, net.pci == kNone ? nullptr : &pci(net.pci));
    set_if(net.kind != implied.kind, element, "kind", name_of(net.kind));
    set_if(net.layer != implied.layer, element, "layer", name_of(net.layer));
    set_if(net.state != LinkState::kUnknown, element, "state", name_of(net.state));
    if (net.bond != implied.bond) set(element, "bond", net.bond ? 1 : 0);
    set_if(!net.interface.empty(), element, "interface", net.interface);
    std::string slaves;
    for (const std::string& slave : net.slaves) slaves += (slaves.empty() ? "" : ",") + slave;
    set_if(!slaves.empty(), element, "slaves", slaves);
  }

  const Machine& m_;
  // By the PCI node + 1 that they are written in: nodes, GPUs, ports. By GPU: links.
  std::vector<std::vector<int>> children_, gpus_;
  std::vector<std::vector<const NetPort*>> nets_;
  std::vector<std::vector<const GpuLink*>> links_;
  // By NUMA node + 1: what stands directly in its <cpu>.
  std::vector<std::vector<int>> roots_;
  std::vector<std::vector<const NetPort*>> loose_nets_;
  pugi::xml_document document_;
};

}  // namespace

Result<std::string> write_nccl_xml(const Machine& machine) {
  const bool has_tree =
      std::all_of(machine.gpus.begin(), machine.gpus.end(), [](const Gpu& gpu) { return gpu.pci != kNone; });
  if (machine.given || !has_tree)
    return make_error(
        twohopInvalidArgument,
        "{}: NCCL XML cannot hold a machine without a PCI tree (it was read from a table of path classes); write JSON",
        machine.source);
  return Writer(machine).write();
}

}  // namespace twohop::topology
