// From hwloc's XML to a machine: the walk over <object>. Devices are made in hwloc_devices.cpp, links in
// hwloc_links.cpp.
#include "topology/hwloc_xml.hpp"

#include <map>

#include "topology/bus_id.hpp"
#include "topology/classify.hpp"
#include "topology/cpu_set.hpp"
#include "topology/finish.hpp"
#include "topology/hwloc_parts.hpp"
#include "topology/text.hpp"

namespace twohop::topology {
namespace {

/// What an object passes on to those inside it.
struct Context {
  int package = kNone;
  int pci = kNone;      // the PCI node above
  int numa = kNone;     // of the PCI node above
  pugi::xml_node cpus;  // the nearest object with a nodeset
  pugi::xml_node package_object;
};

class Reader {
 public:
  explicit Reader(const XmlDocument& document) : document_(document) {}

  Result<HwlocParts> read() {
    parts_.version = static_cast<int>(leading_number(document_.root().attribute("version").value()).value_or(1));
    find_numas(document_.root(), {});
    for (const pugi::xml_node child : document_.root().children("object")) walk(child, {});
    if (error_) return *error_;
    return std::move(parts_);
  }

 private:
  Machine& machine() { return parts_.machine; }

  template <class... Args>
  void fail(pugi::xml_node node, fmt::format_string<Args...> f, Args&&... args) {
    if (!error_)
      error_ = make_error(twohopInvalidArgument, "{}: <object type=\"{}\">: {}", document_.where(node),
                          shown(node.attribute("type").value()), fmt::format(f, std::forward<Args>(args)...));
  }

  static std::string_view type_of(pugi::xml_node node) {
    const std::string_view type = node.attribute("type").value();
    return type == "Socket" ? "Package" : type;  // hwloc before 1.11
  }

  // ---- NUMA nodes: first, since devices may come before the nodes they are near ----

  void find_numas(pugi::xml_node node, Context context) {
    const std::string_view type = type_of(node);
    if (type == "Package") {
      context.package = index_of(node);
      context.package_object = node;
    }
    if (type == "NUMANode") add_numa(node, context);
    for (const pugi::xml_node child : node.children("object")) find_numas(child, context);
  }

  int index_of(pugi::xml_node node) {
    const std::string_view text = node.attribute("os_index").value();
    constexpr std::string_view kUnknownIndex = "4294967295";  // (unsigned)-1
    if (text.empty() || text == kUnknownIndex) return kNone;
    const auto index = parse_int(text, kNone, 1'000'000);
    if (!index) fail(node, "os_index=\"{}\": a number", shown(text));
    return static_cast<int>(index.value_or(kNone));
  }

  void add_numa(pugi::xml_node node, const Context& context) {
    NumaNode numa;
    numa.os_index = index_of(node);
    // hwloc 1 has packages inside NUMA nodes.
    const pugi::xml_node package = context.package_object ? context.package_object : first_package(node);
    numa.package = package ? index_of(package) : kNone;
    numa.cpus = cpus_of(node);
    numa.arch = info(document_.root().child("object"), "Architecture");
    numa.vendor = cpu_info(package, "CPUVendor");
    numa.family = static_cast<int>(parse_int(cpu_info(package, "CPUFamilyNumber"), 0, 1'000'000).value_or(kNone));
    numa.model = static_cast<int>(parse_int(cpu_info(package, "CPUModelNumber"), 0, 1'000'000).value_or(kNone));
    numas_.emplace(numa.os_index, static_cast<int>(machine().numas.size()));
    machine().numas.push_back(std::move(numa));
  }

  static pugi::xml_node first_package(pugi::xml_node node) {
    for (const pugi::xml_node child : node.children("object"))
      if (type_of(child) == "Package") return child;
    return {};
  }

  std::string cpu_info(pugi::xml_node package, const char* name) const {
    const std::string value = package ? info(package, name) : "";
    return value.empty() ? info(document_.root().child("object"), name) : value;
  }

  std::vector<CpuRange> cpus_of(pugi::xml_node node) {
    const std::string_view text = node.attribute("cpuset").value();
    if (text.empty()) return {};
    auto cpus = parse_cpu_mask(text);
    if (!cpus) fail(node, "cpuset=\"{}\": words of hexadecimal digits, separated by commas", shown(text));
    return std::move(cpus).value_or(std::vector<CpuRange>{});
  }

  // ---- devices ----

  void walk(pugi::xml_node node, Context context) {
    const std::string_view type = type_of(node);
    if (node.attribute("nodeset")) context.cpus = node;
    if (type == "Bridge" || type == "PCIDev") {
      if (context.pci == kNone) context.numa = numa_of(context.cpus);
      const auto index = add_pci(node, type, context);
      if (!index) return;
      context.pci = *index;
    } else if (type == "OSDev") {
      parts_.devices.push_back({node, context.pci, context.pci == kNone ? numa_of(context.cpus) : context.numa});
    }
    if (const std::string_view id = node.attribute("gp_index").value(); !id.empty() && context.pci != kNone)
      parts_.pci_of_object.emplace(fmt::format("{}:{}", type, id), context.pci);
    for (const pugi::xml_node child : node.children("object")) walk(child, context);
  }

  /// The one NUMA node of an object's nodeset; several (a whole machine of many) say nothing.
  int numa_of(pugi::xml_node object) {
    if (machine().numas.size() == 1) return 0;
    if (!object) return kNone;
    const auto nodes = parse_cpu_mask(object.attribute("nodeset").value());
    if (!nodes || nodes->size() != 1 || nodes->front().first != nodes->front().last) return kNone;
    const auto at = numas_.find(nodes->front().first);
    return at == numas_.end() ? kNone : at->second;
  }

  std::optional<int> add_pci(pugi::xml_node node, std::string_view type, const Context& context) {
    PciNode pci;
    pci.parent = context.pci;
    pci.numa = context.numa;
    if (type == "Bridge" && std::string_view(node.attribute("bridge_type").value()).starts_with("0-")) {
      // It has no bus id of its own, only the buses behind it: "0000:[44-54]".
      const std::string_view buses = node.attribute("bridge_pci").value();
      const size_t open = buses.find(":["), dash = buses.find('-', open);
      const auto bus =
          open == std::string_view::npos || dash == std::string_view::npos
              ? std::nullopt
              : parse_bus_id(fmt::format("{}:{}:00.0", buses.substr(0, open), buses.substr(open + 2, dash - open - 2)));
      if (!bus) {
        fail(node, "bridge_pci=\"{}\": the buses behind a bridge look like 0000:[44-54]", shown(buses));
        return std::nullopt;
      }
      pci.bus = *bus;
      pci.host_bridge = true;
    } else if (!read_pci(node, pci)) {
      return std::nullopt;
    } else if (type == "Bridge") {
      set_bridge_role(pci);
    }
    machine().pci.push_back(pci);
    return static_cast<int>(machine().pci.size()) - 1;
  }

  bool read_pci(pugi::xml_node node, PciNode& pci) {
    const auto bus = parse_bus_id(node.attribute("pci_busid").value());
    if (!bus) {
      fail(node, "pci_busid=\"{}\": a bus id looks like 0000:3b:00.0", shown(node.attribute("pci_busid").value()));
      return false;
    }
    pci.bus = *bus;
    read_pci_type(node.attribute("pci_type").value(), pci);
    set_lanes(pci, leading_number(node.attribute("pci_link_speed").value()).value_or(0));
    return true;
  }

  /// "0302 [10de:2330] [10de:16c1] a1"
  static void read_pci_type(std::string_view text, PciNode& pci) {
    const std::vector<std::string_view> words = words_of(text);
    const auto ids = [&](size_t i, uint16_t& vendor, uint16_t& device) {
      if (words.size() <= i || words[i].size() != 11) return;
      vendor = static_cast<uint16_t>(parse_hex(words[i].substr(1, 4)).value_or(0));
      device = static_cast<uint16_t>(parse_hex(words[i].substr(6, 4)).value_or(0));
    };
    if (!words.empty() && words[0].size() == 4)
      pci.pci_class = static_cast<uint32_t>(parse_hex(words[0]).value_or(0)) << 8;
    ids(1, pci.vendor, pci.device);
    ids(2, pci.subsystem_vendor, pci.subsystem_device);
  }

  /// Below a host bridge come a root port, then pairs: a switch's upstream port and its downstream ports.
  void set_bridge_role(PciNode& pci) {
    const PciNode* above = pci.parent == kNone ? nullptr : &machine().pci[static_cast<size_t>(pci.parent)];
    pci.is_switch = above != nullptr && above->is_port;
    pci.is_port = !pci.is_switch;
  }

  const XmlDocument& document_;
  HwlocParts parts_;
  std::map<int, int> numas_;  // os_index -> index
  std::optional<Error> error_;
};

}  // namespace

std::string info(pugi::xml_node object, const char* name) {
  for (const pugi::xml_node child : object.children("info"))
    if (std::string_view(child.attribute("name").value()) == name) return child.attribute("value").value();
  return "";
}

Result<Machine> read_hwloc_xml(const XmlDocument& document) {
  auto parts = Reader(document).read();
  if (!parts) return parts.error();
  Machine& m = parts->machine;
  m.kind = SourceKind::kHwlocXml;
  m.source = document.source();
  add_gpus(*parts);
  add_nets(*parts);
  add_links(*parts, document.root());
  merge_links(m);
  number_nets(m);
  name_gpus(m);
  sort_gpus(m);
  note_missing_links(m);
  return std::move(m);
}

Result<Machine> read_hwloc_xml(std::string_view text, std::string source) {
  auto document = XmlDocument::parse(text, std::move(source));
  if (!document) return document.error();
  const XmlDocument& xml = **document;
  if (std::string_view(xml.root().name()) != "topology")
    return make_error(twohopInvalidArgument, "{}: the root element is <{}>; hwloc XML begins with <topology>",
                      xml.where(xml.root()), shown(xml.root().name()));
  return read_hwloc_xml(xml);
}

}  // namespace twohop::topology
