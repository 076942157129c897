// /sys: bus/pci/devices, class/infiniband, class/net. Every file may be missing; then what it says stays unknown.
#include "topology/sysfs.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "topology/bus_id.hpp"
#include "topology/classify.hpp"
#include "topology/finish.hpp"
#include "topology/text.hpp"

namespace twohop::topology {
namespace {

namespace fs = std::filesystem;

std::string first_line(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return std::string(trim(line));
}

int number_in(const fs::path& path, int fallback) {
  return static_cast<int>(parse_int(first_line(path), INT32_MIN, INT32_MAX).value_or(fallback));
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
    names.push_back(at->path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

fs::path resolved(const fs::path& link) {
  std::error_code error;
  return fs::canonical(link, error);
}

uint64_t guid_in(const fs::path& path) {
  std::string digits;
  for (const char c : first_line(path))
    if (c != ':') digits += c;
  return digits.size() <= 16 ? parse_hex(digits).value_or(0) : 0;
}

class Completer {
 public:
  Completer(Machine& machine, const std::string& root) : m_(machine), root_(root) {
    for (size_t i = 0; i < m_.pci.size(); ++i)
      if (!m_.pci[i].host_bridge) pci_.emplace(m_.pci[i].bus, static_cast<int>(i));
    for (size_t i = 0; i < m_.numas.size(); ++i) numas_.emplace(m_.numas[i].os_index, static_cast<int>(i));
  }

  void complete() {
    for (PciNode& node : m_.pci)
      if (!node.host_bridge) complete_pci(node);
    limit_rates_by_ports();
    for (Gpu& gpu : m_.gpus)
      if (gpu.numa == kNone && gpu.pci != kNone) gpu.numa = m_.pci[static_cast<size_t>(gpu.pci)].numa;
    for (const std::string& name : names_in(root_ / "class/infiniband")) complete_rdma(name);
    for (const std::string& name : names_in(root_ / "class/net")) complete_interface(name);
  }

 private:
  // ---- PCI ----

  void complete_pci(PciNode& node) {
    const fs::path folder = root_ / "bus/pci/devices" / to_string(node.bus);
    if (const auto value = parse_hex(first_line(folder / "class")); value && *value <= 0xffffff)
      node.pci_class = static_cast<uint32_t>(*value);
    if (const auto numa = numas_.find(number_in(folder / "numa_node", kNone));
        numa != numas_.end() && numa->first != kNone)
      node.numa = numa->second;
    // The most that the device can do: links of idle devices are slowed down to save power. Their width stays.
    if (const auto speed = leading_number(first_line(folder / "max_link_speed")); speed && *speed > 0 && *speed < 1024)
      node.gt_per_s = *speed;
    const int current = number_in(folder / "current_link_width", 0), most = number_in(folder / "max_link_width", 0);
    // 255: a device that is switched off, or a bridge without a link of its own.
    const int width = current > 0 && current <= 64 ? current : most;
    if (width > 0 && width <= 64) node.width = width;
  }

  /// A device cannot be faster than the port it sits in.
  void limit_rates_by_ports() {
    for (PciNode& node : m_.pci) {
      if (node.parent == kNone) continue;
      const PciNode& port = m_.pci[static_cast<size_t>(node.parent)];
      if (port.is_port && port.gt_per_s > 0 && node.gt_per_s > port.gt_per_s) node.gt_per_s = port.gt_per_s;
    }
  }

  /// The innermost PCI device on a path below /sys/devices.
  int pci_of(const fs::path& device) const {
    int found = kNone;
    for (const fs::path& part : device)
      if (const auto bus = parse_bus_id(part.string()))
        if (const auto at = pci_.find(*bus); at != pci_.end()) found = at->second;
    return found;
  }

  // ---- RDMA ----

  void complete_rdma(const std::string& name) {
    const fs::path folder = root_ / "class/infiniband" / name;
    const int pci = pci_of(resolved(folder / "device"));
    uint64_t guid = guid_in(folder / "sys_image_guid");
    if (guid == 0) guid = guid_in(folder / "node_guid");
    if (pci != kNone) rdma_pci_.insert(pci);
    for (const std::string& text : names_in(folder / "ports")) {
      const auto number = parse_int(text, 1, 1024);
      if (!number) continue;
      NetPort& net = net_of(name, static_cast<int>(*number), pci);
      net.kind = kind_of(name, pci);
      if (guid != 0) net.guid = guid;
      complete_port(folder / "ports" / text, net);
    }
  }

  NetKind kind_of(const std::string& name, int pci) const {
    if (pci != kNone && kind_of_nic_device(m_.pci[static_cast<size_t>(pci)]) == NetKind::kOtherRdma)
      return NetKind::kOtherRdma;
    return rdma_kind_of_name(name).value_or(NetKind::kRdma);
  }

  NetPort& net_of(const std::string& name, int port, int pci) {
    for (NetPort& net : m_.nets)
      if (net.name == name && net.port == port) return net;
    NetPort net;
    net.name = name;
    net.port = port;
    net.pci = pci;
    net.numa = pci == kNone ? kNone : m_.pci[static_cast<size_t>(pci)].numa;
    net.bond = is_bond_name(name);
    m_.nets.push_back(std::move(net));
    return m_.nets.back();
  }

  void complete_port(const fs::path& folder, NetPort& net) const {
    if (const auto state = leading_number(first_line(folder / "state")))
      net.state = *state == 4 ? LinkState::kActive : LinkState::kDown;  // "4: ACTIVE"
    if (const auto rate = leading_number(first_line(folder / "rate")); rate && *rate > 0)
      net.gbit_per_s = *rate;  // "400 Gb/sec (4X NDR)"
    const std::string layer = first_line(folder / "link_layer");
    if (layer == "InfiniBand") net.layer = LinkLayer::kInfiniband;
    if (layer == "Ethernet") net.layer = LinkLayer::kEthernet;
    for (const std::string& index : names_in(folder / "gid_attrs/ndevs")) {
      const std::string interface = first_line(folder / "gid_attrs/ndevs" / index);
      if (interface.empty()) continue;
      net.interface = interface;
      break;
    }
    complete_bond(net.interface, net);
  }

  void complete_bond(const std::string& interface, NetPort& net) const {
    if (interface.empty()) return;
    const fs::path slaves = root_ / "class/net" / interface / "bonding/slaves";
    if (!is_there(slaves)) return;
    net.bond = true;
    net.slaves.clear();
    const std::string names = first_line(slaves);  // the words are views into it
    for (const std::string_view slave : words_of(names)) net.slaves.emplace_back(slave);
  }

  // ---- interfaces ----

  void complete_interface(const std::string& name) {
    const fs::path folder = root_ / "class/net" / name;
    if (name == "lo" || !is_there(folder / "type")) return;  // bonding_masters is no interface
    const fs::path device = resolved(folder);
    const int pci = pci_of(device);
    if (pci != kNone && rdma_pci_.contains(pci)) return;  // an RDMA port's own
    NetPort& net = net_of(name, 0, pci);
    net.gdr = false;
    const bool is_virtual = device.string().find("/devices/virtual/") != std::string::npos;
    net.kind = is_virtual ? NetKind::kVirtual : NetKind::kPhysical;
    if (is_there(folder / "wireless") || is_there(folder / "phy80211")) net.kind = NetKind::kWireless;
    complete_bond(name, net);
    if (net.bond && is_virtual) net.kind = NetKind::kPhysical;  // of the NICs beneath it
    if (const int mbit = number_in(folder / "speed", -1); mbit > 0) net.gbit_per_s = mbit / 1000.0;
    const std::string state = first_line(folder / "operstate");
    if (state == "up") net.state = LinkState::kActive;
    if (state == "down" || state == "lowerlayerdown" || state == "notpresent") net.state = LinkState::kDown;
  }

  Machine& m_;
  fs::path root_;
  std::map<BusId, int> pci_;
  std::map<int, int> numas_;
  std::set<int> rdma_pci_;
};

}  // namespace

void add_sysfs(Machine& machine, const std::string& sys_root) {
  Completer(machine, sys_root).complete();
}

}  // namespace twohop::topology
