// The tree of a credible file, filled with what the kernel says.
#include <map>
#include <utility>

#include "topology/bus_id.hpp"
#include "topology/compare.hpp"
#include "topology/finish.hpp"

namespace twohop::topology {
namespace {

class Merger {
 public:
  Merger(const Machine& file, const Machine& live) : out_(file), live_(live) {
    for (size_t i = 0; i < out_.pci.size(); ++i) pci_.emplace(key(out_.pci[i]), static_cast<int>(i));
    for (size_t i = 0; i < out_.numas.size(); ++i) numas_.emplace(out_.numas[i].os_index, static_cast<int>(i));
    for (size_t i = 0; i < live_.pci.size(); ++i) live_pci_.emplace(key(live_.pci[i]), static_cast<int>(i));
  }

  Machine merge() {
    merge_numas();
    merge_pci();
    merge_gpus();
    merge_links();
    merge_nets();
    out_.notes.insert(out_.notes.end(), live_.notes.begin(), live_.notes.end());
    number_nets(out_);
    name_gpus(out_);
    sort_gpus(out_);
    return std::move(out_);
  }

 private:
  using Key = std::pair<BusId, bool>;  // a host bridge has the bus id of a device behind it
  static Key key(const PciNode& node) { return {node.bus, node.host_bridge}; }
  static size_t at(int index) { return static_cast<size_t>(index); }

  void merge_numas() {
    for (const NumaNode& live : live_.numas) {
      const auto [found, is_new] = numas_.emplace(live.os_index, static_cast<int>(out_.numas.size()));
      if (is_new)
        out_.numas.push_back(live);
      else
        out_.numas[at(found->second)] = live;
    }
  }

  int numa_from_live(int live_numa) const {
    return live_numa == kNone ? kNone : numas_.at(live_.numas[at(live_numa)].os_index);
  }

  void merge_pci() {
    for (PciNode& node : out_.pci) {
      const auto found = live_pci_.find(key(node));
      if (found == live_pci_.end() || node.host_bridge) continue;
      const PciNode& live = live_.pci[at(found->second)];
      if (live.numa != kNone) node.numa = numa_from_live(live.numa);
      if (live.gt_per_s > 0) node.gt_per_s = live.gt_per_s;
      if (live.width > 0) node.width = live.width;
      node.pci_class = live.pci_class;
      node.vendor = live.vendor;
      node.device = live.device;
      node.subsystem_vendor = live.subsystem_vendor;
      node.subsystem_device = live.subsystem_device;
    }
    // Switches that only the file knows are where their devices are.
    for (size_t i = out_.pci.size(); i-- > 0;)
      if (const PciNode& node = out_.pci[i];
          node.parent != kNone && node.numa != kNone && !live_pci_.contains(key(out_.pci[at(node.parent)])))
        out_.pci[at(node.parent)].numa = node.numa;
  }

  /// The place of a live PCI node in the merged tree; nodes that the file lacks are brought along with those above
  /// them.
  int place_of(int live_index) {
    if (live_index == kNone) return kNone;
    const PciNode& live = live_.pci[at(live_index)];
    if (const auto found = pci_.find(key(live)); found != pci_.end()) return found->second;
    const int parent = place_of(live.parent);
    // One element per switch, as in the rest of such a file.
    if (live.is_port && out_.kind == SourceKind::kNcclXml) return parent;
    PciNode node = live;
    node.parent = parent;
    node.numa = numa_from_live(live.numa);
    out_.pci.push_back(node);
    const int index = static_cast<int>(out_.pci.size()) - 1;
    pci_.emplace(key(node), index);
    return index;
  }

  int numa_of_pci(int index, int fallback) const {
    return index != kNone && out_.pci[at(index)].numa != kNone ? out_.pci[at(index)].numa : fallback;
  }

  void merge_gpus() {
    std::multimap<int, size_t> gpus;
    for (size_t i = 0; i < out_.gpus.size(); ++i) gpus.emplace(out_.gpus[i].pci, i);
    for (const Gpu& live : live_.gpus) {
      const int place = place_of(live.pci);
      const auto found = gpus.find(place);
      merged_gpu_.push_back(static_cast<int>(found == gpus.end() ? out_.gpus.size() : found->second));
      if (found == gpus.end()) {
        out_.gpus.push_back(live);
        out_.gpus.back().pci = place;
      } else if (gpus.count(place) == 1) {  // several GPUs of one function stay as the file has them
        take(out_.gpus[found->second], live);
      }
    }
    for (Gpu& gpu : out_.gpus) gpu.numa = numa_of_pci(gpu.pci, gpu.numa);
  }

  static void take(Gpu& gpu, const Gpu& live) {
    gpu.index = live.index;
    gpu.vendor = live.vendor;
    gpu.uuid = live.uuid;
    gpu.model = live.model;
    if (live.sm != kNone) gpu.sm = live.sm;
    gpu.integrated = gpu.integrated || live.integrated;
  }

  void merge_links() {
    if (live_.links.empty()) return;
    out_.links.clear();
    for (GpuLink link : live_.links) {
      link.gpu = merged_gpu_[at(link.gpu)];
      if (link.peer != kNone) link.peer = merged_gpu_[at(link.peer)];
      out_.links.push_back(link);
    }
  }

  void merge_nets() {
    const std::vector<NetPort> from_file = std::exchange(out_.nets, {});
    std::map<int, bool> has_live;  // by place
    std::map<std::pair<std::string, int>, size_t> names;
    for (const NetPort& live : live_.nets) {
      NetPort net = live;
      net.pci = place_of(live.pci);
      net.numa = net.pci == kNone ? numa_from_live(live.numa) : numa_of_pci(net.pci, numa_from_live(live.numa));
      if (net.pci != kNone) has_live[net.pci] = true;
      names.emplace(std::pair(net.name, net.port), out_.nets.size());
      out_.nets.push_back(std::move(net));
    }
    for (const NetPort& net : from_file) {
      if (const auto same = names.find({net.name, net.port}); same != names.end())
        take(out_.nets[same->second], net);
      else if (net.pci != kNone && !has_live[net.pci])
        keep(net);
      else if (net.pci == kNone)
        add_note(out_, Note::Level::kInfo, fmt::format("{}: {} does not exist here", out_.source, net.name));
    }
  }

  /// What only the file knows of a port.
  static void take(NetPort& live, const NetPort& file) {
    live.collective = file.collective;
    live.max_connections = file.max_connections;
    live.latency_us = file.latency_us;
    live.gdr = live.gdr && file.gdr;
    if (live.gbit_per_s == 0) live.gbit_per_s = file.gbit_per_s;
    if (live.dev == kNone) live.dev = file.dev;
  }

  void keep(const NetPort& net) {
    add_note(out_, Note::Level::kWarning,
             fmt::format("{}: the kernel shows no network device for {} at {}; is its driver loaded?", out_.source,
                         net.name, to_string(out_.pci[at(net.pci)].bus)));
    out_.nets.push_back(net);
    out_.nets.back().numa = numa_of_pci(net.pci, net.numa);
  }

  Machine out_;
  const Machine& live_;
  std::map<Key, int> pci_, live_pci_;
  std::map<int, int> numas_;
  std::vector<int> merged_gpu_;  // live GPU -> merged GPU
};

}  // namespace

Reconciled reconcile(const Machine& file, const Machine& live) {
  Comparison comparison = compare(file, live);
  Reconciled result;
  result.file_used = comparison.credible;
  result.machine = comparison.credible ? Merger(file, live).merge() : live;
  if (!comparison.credible)
    comparison.notes.push_back(
        {Note::Level::kWarning, fmt::format("{}: it does not describe this machine and is not used", file.source)});
  result.machine.notes.insert(result.machine.notes.begin(), comparison.notes.begin(), comparison.notes.end());
  return result;
}

}  // namespace twohop::topology
