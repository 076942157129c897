// A canonical text of a machine, its hash, and a short form of it for people.
#include "topology/fingerprint.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "topology/enums.hpp"

namespace twohop::topology {
namespace {

/// FNV-1a: its value is the same everywhere, which std::hash does not promise.
uint64_t hash_of(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

std::string kind_of(const Machine& m, const Gpu& gpu) {
  if (!gpu.model.empty()) return gpu.model;
  std::string kind = gpu.vendor == Vendor::kUnknown ? "GPU" : fmt::format("{} GPU", name_of(gpu.vendor));
  if (!gpu.gcn.empty()) return kind + " " + gpu.gcn;
  if (gpu.sm != kNone) return fmt::format("{} sm {}", kind, gpu.sm);
  return gpu.pci == kNone ? kind : fmt::format("{} {:04x}", kind, m.pci[static_cast<size_t>(gpu.pci)].device);
}

bool counts(const NetPort& net) {
  return net.kind == NetKind::kRdma || net.kind == NetKind::kOtherRdma || net.kind == NetKind::kPhysical;
}

std::string kind_of(const NetPort& net) {
  const std::string kind = net.kind == NetKind::kRdma        ? "RDMA"
                           : net.kind == NetKind::kOtherRdma ? "other RDMA"
                                                             : "Ethernet";
  const std::string layer =
      net.kind == NetKind::kRdma && net.layer != LinkLayer::kUnknown ? fmt::format(" {}", name_of(net.layer)) : "";
  return net.gbit_per_s > 0 ? fmt::format("{}{} {} Gbit/s", kind, layer, net.gbit_per_s) : kind + layer;
}

/// Where devices meet: the same number for those that share all switches and host bridges above them.
class Places {
 public:
  explicit Places(const Machine& m) : m_(m) {}

  /// Numbers of the switches and bridges above a device, from the outside in, numbered by first use, so that bus ids
  /// play no part. Ports are no places.
  std::string of(int pci, int numa) {
    std::string path = fmt::format("numa{}", numa == kNone ? kNone : m_.numas[static_cast<size_t>(numa)].os_index);
    std::vector<int> above;
    for (int node = parent(pci); node != kNone; node = parent(node))
      if (!m_.pci[static_cast<size_t>(node)].is_port) above.push_back(node);
    for (size_t i = above.size(); i-- > 0;)
      path += fmt::format("/{}", numbers_.emplace(above[i], numbers_.size()).first->second);
    return path;
  }

 private:
  int parent(int pci) const { return pci == kNone ? kNone : m_.pci[static_cast<size_t>(pci)].parent; }

  const Machine& m_;
  std::map<int, size_t> numbers_;
};

std::string canonical(const Machine& m) {
  Places places(m);
  std::string text;
  for (const Gpu& gpu : m.gpus)
    text += fmt::format("gpu {} {} gdr{}\n", kind_of(m, gpu), places.of(gpu.pci, gpu.numa), gpu.gdr);
  // The order in which ports were found is no property of the machine.
  std::vector<std::string> nets;
  for (const NetPort& net : m.nets)
    if (counts(net))
      nets.push_back(
          fmt::format("net {} {} port{} bond{}\n", kind_of(net), places.of(net.pci, net.numa), net.port, net.bond));
  std::sort(nets.begin(), nets.end());
  for (const std::string& net : nets) text += net;
  for (const GpuLink& link : m.links)
    text += fmt::format("link {} {} {} {} {}\n", link.gpu, link.peer, link.to_switch, name_of(link.kind), link.count);
  if (m.given) {
    for (const auto* table : {&m.given->gpu_gpu, &m.given->gpu_net})
      for (const auto& row : *table) {
        for (const PathClass path : row) text += name_of(path), text += ' ';
        text += '\n';
      }
  }
  return text;
}

template <class Range, class Kind>
std::string counted(const Range& range, const Kind& kind) {
  std::map<std::string, int> kinds;
  for (const auto& thing : range)
    if (const std::string name = kind(thing); !name.empty()) ++kinds[name];
  std::string text;
  for (const auto& [name, count] : kinds) text += fmt::format("{}{} x {}", text.empty() ? "" : " + ", count, name);
  return text;
}

std::string summary_of(const Machine& m) {
  std::string text = counted(m.gpus, [&](const Gpu& gpu) { return kind_of(m, gpu); });
  if (text.empty()) text = "no GPU";
  std::set<std::string> links;
  for (const GpuLink& link : m.links) links.insert(name_of(link.kind));
  for (const std::string& link : links) text += fmt::format(" ({})", link);
  const std::string nets = counted(m.nets, [](const NetPort& net) { return counts(net) ? kind_of(net) : ""; });
  text += ", " + (nets.empty() ? "no network port" : nets);
  const auto nodes =
      std::count_if(m.numas.begin(), m.numas.end(), [](const NumaNode& numa) { return numa.os_index != kNone; });
  return text + fmt::format(", {} NUMA node{}", nodes, nodes == 1 ? "" : "s");
}

}  // namespace

Fingerprint fingerprint(const Machine& machine) {
  return {hash_of(canonical(machine)), summary_of(machine)};
}

}  // namespace twohop::topology
