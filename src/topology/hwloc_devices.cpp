// GPUs and network ports out of hwloc's PCI devices and the operating system's devices inside them.
#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "topology/bus_id.hpp"
#include "topology/classify.hpp"
#include "topology/hwloc_parts.hpp"
#include "topology/text.hpp"

namespace twohop::topology {
namespace {

constexpr size_t kMaxPorts = 64;
constexpr int kPortActive = 4;  // IBV_PORT_ACTIVE

enum class OsType { kOther, kNetwork, kRdma };

/// hwloc 3 has a set of bits where 1 and 2 have a number.
OsType os_type(const HwlocParts& parts, const OsDevice& device) {
  const std::string_view name = device.object.attribute("name").value();
  const int64_t type = parse_int(device.object.attribute("osdev_type").value(), 0, 1 << 16).value_or(-1);
  constexpr int kNetworkBit = 1 << 4, kOpenFabricsBit = 1 << 5, kNetworkNumber = 2, kOpenFabricsNumber = 3;
  const bool bits = parts.version >= 3;
  const bool rdma = bits ? (type & kOpenFabricsBit) != 0 && type > 0 : type == kOpenFabricsNumber;
  const bool network = bits ? (type & kNetworkBit) != 0 && type > 0 : type == kNetworkNumber;
  if (rdma) return OsType::kRdma;
  if (!network) return OsType::kOther;
  // Old versions of hwloc took HCAs for interfaces. "ibp1s0" can be either.
  return rdma_kind_of_name(name) && !is_infiniband_interface(name) ? OsType::kRdma : OsType::kNetwork;
}

uint64_t guid_of(std::string_view text) {
  std::string digits;
  for (const char c : text)
    if (c != ':') digits += c;
  return digits.size() <= 16 ? parse_hex(digits).value_or(0) : 0;
}

struct Interface {
  std::string name;
  int port = kNone;
};

class Nets {
 public:
  explicit Nets(HwlocParts& parts) : parts_(parts) {
    for (const OsDevice& device : parts_.devices)
      if (device.pci != kNone && os_type(parts_, device) == OsType::kNetwork)
        interfaces_[device.pci].push_back(interface(device));
  }

  void add() {
    std::map<int, bool> has_rdma;
    for (const OsDevice& device : parts_.devices) {
      if (os_type(parts_, device) != OsType::kRdma) continue;
      has_rdma[device.pci] = device.pci != kNone;
      add_rdma(device);
    }
    for (const OsDevice& device : parts_.devices)
      if (os_type(parts_, device) == OsType::kNetwork && !has_rdma[device.pci]) add_interface(device);
  }

 private:
  static Interface interface(const OsDevice& device) {
    const std::string port = info(device.object, "Port");
    return {device.object.attribute("name").value(), static_cast<int>(parse_int(port, 0, 1024).value_or(kNone))};
  }

  const PciNode* pci(int index) const {
    return index == kNone ? nullptr : &parts_.machine.pci[static_cast<size_t>(index)];
  }

  /// Ports that have a state, or as many as the device has interfaces, or one.
  size_t ports_of(const OsDevice& device) const {
    size_t ports = 0;
    while (ports < kMaxPorts && !info(device.object, fmt::format("Port{}State", ports + 1).c_str()).empty()) ++ports;
    if (ports > 0) return ports;
    const auto interfaces = interfaces_.find(device.pci);
    const std::string_view name = device.object.attribute("name").value();
    // Only drivers with one device for all ports show several interfaces; others have a device per port.
    if (interfaces == interfaces_.end() || !name.starts_with("mlx4")) return 1;
    return std::min(std::max<size_t>(1, interfaces->second.size()), kMaxPorts);
  }

  void add_rdma(const OsDevice& device) {
    const size_t ports = ports_of(device);
    for (size_t port = 1; port <= ports; ++port) {
      NetPort net;
      net.name = device.object.attribute("name").value();
      net.port = static_cast<int>(port);
      net.pci = device.pci;
      net.numa = device.numa;
      net.kind = rdma_kind_of_name(net.name).value_or(NetKind::kRdma);
      const PciNode* node = pci(device.pci);
      if (node != nullptr && kind_of_nic_device(*node) == NetKind::kOtherRdma) net.kind = NetKind::kOtherRdma;
      net.interface = interface_of(device, port, ports);
      net.layer = net.kind == NetKind::kRdma ? layer_of(node, net.name) : LinkLayer::kUnknown;
      net.state = state_of(info(device.object, fmt::format("Port{}State", port).c_str()));
      net.guid = guid_of(info(device.object, "SysImageGUID"));
      if (net.guid == 0) net.guid = guid_of(info(device.object, "NodeGUID"));
      net.bond = is_bond_name(net.name);
      add(std::move(net));
    }
  }

  std::string interface_of(const OsDevice& device, size_t port, size_t ports) const {
    const auto found = interfaces_.find(device.pci);
    if (device.pci == kNone || found == interfaces_.end()) return "";
    const std::vector<Interface>& interfaces = found->second;
    for (const Interface& interface : interfaces)
      if (interface.port == static_cast<int>(port)) return interface.name;
    return interfaces.size() == ports && interfaces[port - 1].port == kNone ? interfaces[port - 1].name : "";
  }

  static LinkState state_of(std::string_view text) {
    const auto state = parse_int(text, 0, 100);
    if (!state) return LinkState::kUnknown;
    return *state == kPortActive ? LinkState::kActive : LinkState::kDown;
  }

  void add_interface(const OsDevice& device) {
    NetPort net;
    net.name = device.object.attribute("name").value();
    net.port = 0;  // as NCCL numbers what has no RDMA port
    net.pci = device.pci;
    net.numa = device.numa;
    net.kind = interface_kind_of_name(net.name);
    const PciNode* node = pci(device.pci);
    if (node != nullptr && is_wireless_class(node->pci_class)) net.kind = NetKind::kWireless;
    net.bond = is_bond_name(net.name);
    net.gdr = false;
    add(std::move(net));
  }

  void add(NetPort net) {
    if (net.name.empty() || !names_.emplace(net.name, net.port).second) return;
    parts_.machine.nets.push_back(std::move(net));
  }

  HwlocParts& parts_;
  std::map<int, std::vector<Interface>> interfaces_;  // by PCI node
  std::set<std::pair<std::string, int>> names_;
};

/// "nvml3" -> 3
int number_after(std::string_view name, std::string_view prefix) {
  if (!name.starts_with(prefix)) return kNone;
  return static_cast<int>(parse_int(name.substr(prefix.size()), 0, 1'000'000).value_or(kNone));
}

void describe(Gpu& gpu, const OsDevice& device, int& rank_of_source) {
  // In order of trust: the drivers' own tools number all GPUs, CUDA only those that a process may see.
  constexpr std::array<std::string_view, 4> kSources = {"cuda", "ze", "rsmi", "nvml"};
  const std::string_view name = device.object.attribute("name").value();
  for (size_t i = 0; i < kSources.size(); ++i) {
    const int index = number_after(name, kSources[i]);
    if (index == kNone) continue;
    if (static_cast<int>(i) >= rank_of_source) {
      rank_of_source = static_cast<int>(i);
      gpu.index = index;
    }
    if (gpu.model.empty()) gpu.model = info(device.object, "GPUModel");
    for (const char* uuid : {"NVIDIAUUID", "AMDUUID"})
      if (gpu.uuid.empty()) gpu.uuid = info(device.object, uuid);
  }
}

}  // namespace

void set_lanes(PciNode& pci, double gbytes_per_s) {
  struct Generation {
    double gt_per_s, lane_gbytes_per_s;
  };
  // Rates after the line code, as hwloc computes them (8b/10b, then 128b/130b, then FLITs).
  constexpr std::array<Generation, 7> kGenerations = {
      {{2.5, 0.25}, {5, 0.5}, {8, 0.984615}, {16, 1.969231}, {32, 3.938462}, {64, 7.5625}, {128, 15.125}}};
  constexpr std::array kWidths = {16, 12, 8, 4, 2, 1};
  constexpr double kTolerance = 0.03;
  if (gbytes_per_s <= 0) return;
  for (const int width : kWidths)
    for (const Generation& generation : kGenerations)
      if (std::abs(generation.lane_gbytes_per_s * width - gbytes_per_s) <= kTolerance * gbytes_per_s) {
        pci.gt_per_s = generation.gt_per_s;
        pci.width = width;
        return;
      }
}

void add_gpus(HwlocParts& parts) {
  Machine& m = parts.machine;
  std::map<int, size_t> gpu_of_pci;
  for (size_t i = 0; i < m.pci.size(); ++i) {
    if (!is_gpu(m.pci[i])) continue;
    Gpu gpu;
    gpu.pci = static_cast<int>(i);
    gpu.numa = m.pci[i].numa;
    gpu.vendor = vendor_of(m.pci[i].vendor);
    gpu_of_pci.emplace(gpu.pci, m.gpus.size());
    m.gpus.push_back(std::move(gpu));
  }
  std::map<size_t, int> rank_of_source;
  for (const OsDevice& device : parts.devices)
    if (const auto at = gpu_of_pci.find(device.pci); at != gpu_of_pci.end())
      describe(m.gpus[at->second], device, rank_of_source[at->second]);
}

void add_nets(HwlocParts& parts) {
  Nets(parts).add();
}

}  // namespace twohop::topology
