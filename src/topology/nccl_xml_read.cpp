// From NCCL's topology XML to a machine: the walk over <cpu>, <pci>, <gpu>, <nic>. What the elements mean together
// (links, duplicates, vendors' files) is settled in nccl_xml_settle.cpp.
#include <algorithm>
#include <map>

#include "topology/bus_id.hpp"
#include "topology/classify.hpp"
#include "topology/cpu_set.hpp"
#include "topology/nccl_xml_parts.hpp"
#include "topology/text.hpp"

namespace twohop::topology {
namespace {

constexpr int kMaxNumber = 1'000'000;  // of devices, ranks, family numbers
constexpr double kMaxMbitPerS = 100'000'000;
constexpr int kSocketConnections = 65536;  // what NCCL's socket transport writes as maxconn

class Reader {
 public:
  explicit Reader(const XmlDocument& document) : document_(document) {}

  Result<NcclParts> read() {
    host_ = document_.root().child("cpu").attribute("host_hash").value();
    std::vector<pugi::xml_node> unlocated;  // come last, as they are written
    for (const pugi::xml_node child : document_.root().children()) {
      if (std::string_view(child.name()) != "cpu")
        skip(child);
      else if (flag(child, "unlocated", false))
        unlocated.push_back(child);
      else
        read_cpu(child, true);
    }
    for (const pugi::xml_node cpu : unlocated) read_cpu(cpu, false);
    if (error_) return *error_;
    return std::move(parts_);
  }

 private:
  Machine& machine() { return parts_.machine; }

  template <class... Args>
  void fail(pugi::xml_node node, fmt::format_string<Args...> f, Args&&... args) {
    if (!error_)
      error_ = make_error(twohopInvalidArgument, "{}: <{}>: {}", document_.where(node), shown(node.name()),
                          fmt::format(f, std::forward<Args>(args)...));
  }

  int number(pugi::xml_node node, const char* name, int fallback, int low = kNone, int high = kMaxNumber) {
    const pugi::xml_attribute attribute = node.attribute(name);
    if (!attribute || *attribute.value() == '\0') return fallback;
    const auto value = parse_int(trim(attribute.value()), low, high);
    if (!value) fail(node, "{}=\"{}\": a number from {} to {}", name, shown(attribute.value()), low, high);
    return static_cast<int>(value.value_or(fallback));
  }

  double rate(pugi::xml_node node, const char* name, double high) {
    const pugi::xml_attribute attribute = node.attribute(name);
    if (!attribute || *attribute.value() == '\0') return 0;
    const auto value = leading_number(attribute.value());
    if (!value || *value > high) fail(node, "{}=\"{}\": a number from 0 to {}", name, shown(attribute.value()), high);
    return value.value_or(0);
  }

  uint64_t hex(pugi::xml_node node, const char* name, uint64_t high) {
    const pugi::xml_attribute attribute = node.attribute(name);
    if (!attribute || *attribute.value() == '\0') return 0;
    const auto value = parse_hex(trim(attribute.value()));
    if (!value || *value > high)
      fail(node, "{}=\"{}\": a hexadecimal number up to {:#x}", name, shown(attribute.value()), high);
    return value.value_or(0);
  }

  bool flag(pugi::xml_node node, const char* name, bool fallback) { return number(node, name, fallback ? 1 : 0) > 0; }

  void skip(pugi::xml_node node) {
    const std::string_view name = node.name();
    if (node.type() != pugi::node_element || std::find(skipped_.begin(), skipped_.end(), name) != skipped_.end())
      return;
    constexpr size_t kEnough = 20;
    if (skipped_.size() == kEnough) return;
    skipped_.emplace_back(name);
    add_note(machine(), Note::Level::kInfo,
             fmt::format("{}: elements <{}> are not known and were skipped", document_.where(node), shown(name)));
  }

  // ---- <cpu> ----

  void read_cpu(pugi::xml_node node, bool located) {
    if (host_ != node.attribute("host_hash").value()) {
      if (!other_hosts_)
        add_note(machine(), Note::Level::kWarning,
                 fmt::format("{}: the file describes several hosts (host_hash); only the first is used",
                             document_.where(node)));
      other_hosts_ = true;
      return;
    }
    const int numa = located ? add_numa(node) : kNone;
    for (const pugi::xml_node child : node.children("pci")) read_pci(child, kNone, numa);
    read_nics(node, kNone, numa);
    for (const pugi::xml_node child : node.children())
      if (const std::string_view name = child.name(); name != "pci" && name != "nic" && name != "net") skip(child);
  }

  int add_numa(pugi::xml_node node) {
    NumaNode numa;
    numa.os_index = number(node, "numaid", kNone);
    numa.package = number(node, "package", kNone);
    numa.arch = node.attribute("arch").value();
    numa.vendor = node.attribute("vendor").value();
    numa.family = number(node, "familyid", kNone);
    numa.model = number(node, "modelid", kNone);
    if (const std::string_view mask = node.attribute("affinity").value(); !trim(mask).empty()) {
      auto cpus = parse_cpu_mask(trim(mask));
      if (!cpus) fail(node, "affinity=\"{}\": words of 8 hexadecimal digits, separated by commas", shown(mask));
      numa.cpus = std::move(cpus).value_or(std::vector<CpuRange>{});
    }
    machine().numas.push_back(std::move(numa));
    return static_cast<int>(machine().numas.size()) - 1;
  }

  // ---- <pci> ----

  void read_pci(pugi::xml_node node, int parent, int numa) {
    if (parent == kNone) parent = add_host_bridge(node, numa);
    PciNode pci;
    const auto bus = parse_bus_id(trim(node.attribute("busid").value()));
    if (!bus)
      return fail(node, "busid=\"{}\": a bus id looks like 0000:3b:00.0", shown(node.attribute("busid").value()));
    pci.bus = *bus;
    pci.parent = parent;
    pci.numa = numa;
    pci.pci_class = static_cast<uint32_t>(hex(node, "class", 0xffffff));
    pci.vendor = static_cast<uint16_t>(hex(node, "vendor", 0xffff));
    pci.device = static_cast<uint16_t>(hex(node, "device", 0xffff));
    pci.subsystem_vendor = static_cast<uint16_t>(hex(node, "subsystem_vendor", 0xffff));
    pci.subsystem_device = static_cast<uint16_t>(hex(node, "subsystem_device", 0xffff));
    pci.gt_per_s = std::min(leading_number(node.attribute("link_speed").value()).value_or(0), 1024.0);
    pci.width = number(node, "link_width", 0, 0, 255);
    pci.host_bridge = pci.pci_class >> 8 == 0x0600;
    pci.is_switch = !pci.host_bridge && (pci.pci_class >> 8 == 0x0604 || node.child("pci"));
    const int index = add_pci(pci);
    for (const pugi::xml_node child : node.children("gpu")) read_gpu(child, index, numa);
    read_nics(node, index, numa);
    for (const pugi::xml_node child : node.children()) {
      const std::string_view name = child.name();
      if (name == "pci")
        read_pci(child, index, numa);
      else if (name != "gpu" && name != "nic" && name != "net")
        skip(child);
    }
  }

  /// Written by us at the roots of a tree that had host bridges.
  int add_host_bridge(pugi::xml_node node, int numa) {
    const std::string_view text = node.attribute("host_bridge").value();
    if (text.empty()) return kNone;
    const auto bus = parse_bus_id(text);
    if (!bus) {
      fail(node, "host_bridge=\"{}\": a bus id looks like 0000:3b:00.0", shown(text));
      return kNone;
    }
    const auto [known, is_new] = host_bridges_.emplace(std::pair(*bus, numa), static_cast<int>(machine().pci.size()));
    if (!is_new) return known->second;
    PciNode bridge;
    bridge.bus = *bus;
    bridge.numa = numa;
    bridge.host_bridge = true;
    return add_pci(bridge);
  }

  int add_pci(const PciNode& pci) {
    machine().pci.push_back(pci);
    return static_cast<int>(machine().pci.size()) - 1;
  }

  // ---- <gpu> ----

  void read_gpu(pugi::xml_node node, int pci, int numa) {
    Gpu gpu;
    gpu.index = number(node, "dev", kNone);
    gpu.rank = number(node, "rank", kNone);
    gpu.pci = pci;
    gpu.numa = numa;
    gpu.sm = number(node, "sm", kNone);
    gpu.gcn = node.attribute("gcn").value();
    gpu.arch = number(node, "arch", kNone);
    gpu.mlopart = number(node, "mlopart", kNone);
    gpu.gdr = flag(node, "gdr", true);
    gpu.uuid = node.attribute("uuid").value();
    gpu.model = node.attribute("model").value();
    gpu.vendor = vendor_of(machine().pci[static_cast<size_t>(pci)].vendor);
    if (gpu.vendor == Vendor::kUnknown && !gpu.gcn.empty()) gpu.vendor = Vendor::kAmd;
    if (gpu.vendor == Vendor::kUnknown && gpu.sm > 0) gpu.vendor = Vendor::kNvidia;
    gpu.integrated = flag(node, "integrated", !gpu.gdr && node.child("c2c"));
    machine().gpus.push_back(std::move(gpu));
    for (const pugi::xml_node child : node.children()) read_link(child, static_cast<int>(machine().gpus.size()) - 1);
  }

  void read_link(pugi::xml_node node, int gpu) {
    const std::string_view name = node.name();
    if (name != "nvlink" && name != "xgmi" && name != "c2c") return skip(node);
    NcclLink link;
    link.link.gpu = gpu;
    link.link.kind = name == "nvlink" ? GpuLinkKind::kNvlink : name == "xgmi" ? GpuLinkKind::kXgmi : GpuLinkKind::kC2c;
    link.link.count = number(node, "count", 1, 0, kMaxGpuLinks);
    if (link.link.count == 0) return;
    // bw of one link in MB/s
    link.link.gbit_per_s = rate(node, "bw", kMaxMbitPerS) * link.link.count * 8 / 1000;
    link.target_class = static_cast<uint32_t>(hex(node, "tclass", 0xffffff));
    const std::string_view target = node.attribute("target").value();
    link.target = parse_bus_id(trim(target));
    if (!target.empty() && !link.target) fail(node, "target=\"{}\": a bus id looks like 0000:3b:00.0", shown(target));
    parts_.links.push_back(link);
  }

  // ---- <nic>, <net> ----

  void read_nics(pugi::xml_node parent, int pci, int numa) {
    for (const pugi::xml_node net : parent.children("net")) read_net(net, pci, numa);
    for (const pugi::xml_node nic : parent.children("nic")) {
      for (const pugi::xml_node child : nic.children()) {
        if (std::string_view(child.name()) == "net")
          read_net(child, pci, numa);
        else
          skip(child);
      }
    }
  }

  void read_net(pugi::xml_node node, int pci, int numa) {
    NetPort net;
    net.name = node.attribute("name").value();
    net.pci = pci;
    net.numa = numa;
    net.dev = number(node, "dev", kNone);
    net.port = number(node, "port", 1, 0, kMaxNumber);
    net.gbit_per_s = rate(node, "speed", kMaxMbitPerS) / 1000;
    net.latency_us = rate(node, "latency", 1e9);
    net.guid = hex(node, "guid", UINT64_MAX);
    net.max_connections = number(node, "maxconn", 0, 0, INT32_MAX);
    net.gdr = flag(node, "gdr", true);
    net.collective = flag(node, "coll", false);
    if (net.name.empty())
      net.name = pci == kNone ? fmt::format("net{}", net.dev) : to_string(machine().pci[static_cast<size_t>(pci)].bus);
    const PciNode* device = pci == kNone ? nullptr : &machine().pci[static_cast<size_t>(pci)];
    set_inferred(net, device);
    read_own_attributes(node, net);
    machine().nets.push_back(std::move(net));
  }

  void read_own_attributes(pugi::xml_node node, NetPort& net) {
    const auto chosen = [&](const char* name, auto& member, const auto& parse) {
      const std::string_view text = node.attribute(name).value();
      if (text.empty()) return;
      if (const auto value = parse(text))
        member = *value;
      else
        fail(node, "{}=\"{}\" is not a value that is written here", name, shown(text));
    };
    chosen("kind", net.kind, net_kind_of);
    chosen("layer", net.layer, link_layer_of);
    chosen("state", net.state, link_state_of);
    net.bond = flag(node, "bond", net.bond);
    net.interface = node.attribute("interface").value();
    if (const std::string_view slaves = node.attribute("slaves").value(); !slaves.empty())
      for (const std::string_view slave : split(slaves, ',')) net.slaves.emplace_back(slave);
  }

  const XmlDocument& document_;
  NcclParts parts_;
  std::optional<Error> error_;
  std::vector<std::string> skipped_;
  std::map<std::pair<BusId, int>, int> host_bridges_;
  std::string host_;
  bool other_hosts_ = false;
};

}  // namespace

void set_inferred(NetPort& net, const PciNode* device) {
  const auto rdma = rdma_kind_of_name(net.name);
  const bool socket = net.port == 0 && (net.max_connections == kSocketConnections || net.max_connections == 0);
  if (rdma && !(socket && is_infiniband_interface(net.name)))
    net.kind = *rdma;
  else if (socket)
    net.kind = interface_kind_of_name(net.name);
  else
    net.kind = NetKind::kRdma;
  if (device != nullptr && is_wireless_class(device->pci_class)) net.kind = NetKind::kWireless;
  net.bond = is_bond_name(net.name);
  if (net.kind == NetKind::kRdma) net.layer = layer_of(device, net.name);
}

Result<Machine> read_nccl_xml(const XmlDocument& document) {
  auto parts = Reader(document).read();
  if (!parts) return parts.error();
  parts->machine.kind = SourceKind::kNcclXml;
  parts->machine.source = document.source();
  return settle(std::move(*parts));
}

Result<Machine> read_nccl_xml(std::string_view text, std::string source) {
  auto document = XmlDocument::parse(text, std::move(source));
  if (!document) return document.error();
  const XmlDocument& xml = **document;
  if (std::string_view(xml.root().name()) != "system")
    return make_error(twohopInvalidArgument, "{}: the root element is <{}>; NCCL topology XML begins with <system>",
                      xml.where(xml.root()), shown(xml.root().name()));
  return read_nccl_xml(xml);
}

}  // namespace twohop::topology
