// Contradictions between a topology file and the live machine.
#include "topology/compare.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "topology/bus_id.hpp"
#include "topology/classify.hpp"
#include "topology/cpu_set.hpp"

namespace twohop::topology {
namespace {

constexpr double kSameRate = 0.05;  // relative; files round
constexpr size_t kShownOfAKind = 4;

class Comparer {
 public:
  Comparer(const Machine& file, const Machine& live) : file_(file), live_(live) {
    for (const PciNode& node : live_.pci)
      if (!node.host_bridge) live_pci_.emplace(node.bus, &node);
    for (const Gpu& gpu : live_.gpus)
      if (gpu.pci != kNone) live_gpus_.insert(live_.pci[at(gpu.pci)].bus);
  }

  Comparison compare() {
    if (file_.kind == SourceKind::kMatrix || file_.kind == SourceKind::kDeviceInfo || file_.given) {
      wrong("source", "it has no bus ids, so its devices cannot be matched with those of this machine");
    } else {
      compare_gpus();
      compare_nets();
      compare_switches();
      compare_affinity();
    }
    for (const auto& [kind, count] : counts_)
      if (count > kShownOfAKind)
        result_.notes.push_back({Note::Level::kWarning, fmt::format("{}: {} more contradictions of this kind ({})",
                                                                    file_.source, count - kShownOfAKind, kind)});
    return std::move(result_);
  }

 private:
  static size_t at(int index) { return static_cast<size_t>(index); }

  void note(const char* kind, std::string text) {
    if (++counts_[kind] <= kShownOfAKind)
      result_.notes.push_back({Note::Level::kWarning, fmt::format("{}: {}", file_.source, text)});
  }
  /// A contradiction that makes the whole file incredible.
  void wrong(const char* kind, std::string text) {
    result_.credible = false;
    note(kind, std::move(text));
  }

  const PciNode* live_at(const BusId& bus) const {
    const auto found = live_pci_.find(bus);
    return found == live_pci_.end() ? nullptr : found->second;
  }

  static int os_index(const Machine& m, int numa) { return numa == kNone ? kNone : m.numas[at(numa)].os_index; }

  static std::string what_is(const PciNode& node) {
    const char* kind = has_gpu_class(node.pci_class)  ? "a GPU"
                       : is_nic_class(node.pci_class) ? "a NIC"
                                                      : "another device";
    return fmt::format("{} ({:04x}:{:04x}, class 0x{:06x})", kind, node.vendor, node.device, node.pci_class);
  }

  void compare_gpus() {
    std::set<BusId> in_file;
    for (const Gpu& gpu : file_.gpus) {
      if (gpu.pci == kNone) continue;
      const PciNode& node = file_.pci[at(gpu.pci)];
      if (!in_file.insert(node.bus).second) continue;
      const PciNode* live = live_at(node.bus);
      if (live == nullptr)
        wrong("absent", fmt::format("its GPU at {} does not exist here", to_string(node.bus)));
      else if (!live_gpus_.contains(node.bus))
        wrong("kind", fmt::format("its GPU at {} is {} here", to_string(node.bus), what_is(*live)));
      else
        compare_device(node, *live);
    }
    for (const BusId& bus : live_gpus_)
      if (!in_file.empty() && !in_file.contains(bus))
        note("lacks", fmt::format("it lacks the GPU at {}", to_string(bus)));
  }

  void compare_nets() {
    std::set<BusId> seen;
    for (const NetPort& net : file_.nets) {
      compare_port(net);
      if (net.pci == kNone || file_.pci[at(net.pci)].host_bridge) continue;
      const PciNode& node = file_.pci[at(net.pci)];
      if (!seen.insert(node.bus).second) continue;
      const PciNode* live = live_at(node.bus);
      if (live == nullptr)
        wrong("absent", fmt::format("its NIC {} at {} does not exist here", net.name, to_string(node.bus)));
      else if (!is_nic_class(live->pci_class))
        wrong("kind", fmt::format("its NIC {} at {} is {} here", net.name, to_string(node.bus), what_is(*live)));
      else
        compare_device(node, *live);
    }
  }

  void compare_device(const PciNode& file, const PciNode& live) {
    const int there = os_index(file_, file.numa), here = os_index(live_, live.numa);
    if (there != kNone && here != kNone && there != here)
      note("NUMA", fmt::format("{} is on NUMA node {} in it and on {} here; the kernel's is used", to_string(file.bus),
                               there, here));
    const double rate = file.gt_per_s * file.width, live_rate = live.gt_per_s * live.width;
    if (rate > 0 && live_rate > 0 && differ(rate, live_rate))
      note("link", fmt::format("the PCIe link of {} is {} GT/s x{} in it and {} GT/s x{} here; the kernel's is used",
                               to_string(file.bus), file.gt_per_s, file.width, live.gt_per_s, live.width));
    if (file.vendor != 0 && file.vendor != 0xffff && live.vendor != 0 && file.vendor != live.vendor)
      wrong("vendor",
            fmt::format("{} is of vendor {:04x} in it and {:04x} here", to_string(file.bus), file.vendor, live.vendor));
  }

  static bool differ(double a, double b) { return std::abs(a - b) > kSameRate * std::max(a, b); }

  void compare_port(const NetPort& net) {
    for (const NetPort& live : live_.nets) {
      if (live.name != net.name || live.port != net.port) continue;
      if (net.gbit_per_s > 0 && live.gbit_per_s > 0 && differ(net.gbit_per_s, live.gbit_per_s))
        note("rate", fmt::format("{} port {} has {} Gbit/s in it and {} here; the kernel's is used", net.name, net.port,
                                 net.gbit_per_s, live.gbit_per_s));
      if (net.pci != kNone && live.pci != kNone && !(file_.pci[at(net.pci)].bus == live_.pci[at(live.pci)].bus))
        note("place", fmt::format("{} is at {} in it and at {} here; the kernel's is used", net.name,
                                  to_string(file_.pci[at(net.pci)].bus), to_string(live_.pci[at(live.pci)].bus)));
    }
  }

  /// Devices under one switch are on one NUMA node, whatever file says otherwise.
  void compare_switches() {
    std::map<int, std::pair<int, BusId>> node_of_root;  // root of the file's tree -> NUMA node of its first device here
    for (size_t i = 0; i < file_.pci.size(); ++i) {
      const PciNode* live = live_at(file_.pci[i].bus);
      if (live == nullptr || os_index(live_, live->numa) == kNone || file_.pci[i].is_switch || file_.pci[i].is_port)
        continue;
      const int root = top_switch(static_cast<int>(i));
      if (root == kNone) continue;
      const auto [first, is_new] = node_of_root.emplace(root, std::pair(os_index(live_, live->numa), live->bus));
      if (!is_new && first->second.first != os_index(live_, live->numa))
        wrong("switch", fmt::format("it puts {} and {} under one PCI switch, but here they are on NUMA nodes {} and {}",
                                    to_string(first->second.second), to_string(live->bus), first->second.first,
                                    os_index(live_, live->numa)));
    }
  }

  int top_switch(int index) const {
    int found = kNone;
    for (int node = file_.pci[at(index)].parent; node != kNone; node = file_.pci[at(node)].parent)
      if (file_.pci[at(node)].is_switch) found = node;
    return found;
  }

  void compare_affinity() {
    std::map<int, const NumaNode*> live;
    for (const NumaNode& numa : live_.numas) live.emplace(numa.os_index, &numa);
    for (const NumaNode& numa : file_.numas) {
      if (numa.os_index == kNone) continue;
      const auto here = live.find(numa.os_index);
      if (here == live.end())
        note("nodes", fmt::format("its NUMA node {} does not exist here", numa.os_index));
      else if (!numa.cpus.empty() && !here->second->cpus.empty() && numa.cpus != here->second->cpus)
        note("affinity", fmt::format("NUMA node {} has the CPUs {} in it and {} here; the kernel's are used",
                                     numa.os_index, to_cpu_list(numa.cpus), to_cpu_list(here->second->cpus)));
    }
  }

  const Machine& file_;
  const Machine& live_;
  std::map<BusId, const PciNode*> live_pci_;
  std::set<BusId> live_gpus_;
  std::map<std::string, size_t> counts_;
  Comparison result_;
};

}  // namespace

Comparison compare(const Machine& file, const Machine& live) {
  return Comparer(file, live).compare();
}

}  // namespace twohop::topology
