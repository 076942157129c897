// See paths.hpp.
#include "topology/paths.hpp"

#include <algorithm>
#include <map>
#include <optional>

namespace twohop::topology {
namespace {

/// The PCI tree with what paths need of each node.
class Tree {
 public:
  explicit Tree(const Machine& m) : m_(m), depth_(m.pci.size(), 0), element_(m.pci.size(), 0) {
    for (size_t i = 0; i < m.pci.size(); ++i) place(static_cast<int>(i));
  }

  int root(int node) const {
    while (m_.pci[node].parent != kNone) node = m_.pci[node].parent;
    return node;
  }

  int shared(int a, int b) const {
    while (a != kNone && b != kNone && a != b) {
      if (depth_[a] >= depth_[b])
        a = m_.pci[a].parent;
      else
        b = m_.pci[b].parent;
    }
    return a == b ? a : kNone;
  }

  /// Switch elements strictly between two devices that share a switch.
  int elements_between(int a, int b, int shared) const {
    std::vector<int> seen;
    for (int end : {a, b})
      for (int node = m_.pci[end].parent; node != kNone; node = m_.pci[node].parent) {
        if (std::find(seen.begin(), seen.end(), element_[node]) == seen.end()) seen.push_back(element_[node]);
        if (node == shared) break;
      }
    return static_cast<int>(seen.size());
  }

  int climb(int from, int shared) const { return depth_[from] - depth_[shared]; }

 private:
  /// NCCL's XML has one element per switch. hwloc and sysfs show the ports of a switch: one upstream, and beneath it
  /// the downstream ones. Below a host bridge these alternate, beginning with a root port, which stands alone.
  void place(int i) {
    const PciNode& node = m_.pci[i];
    element_[i] = i;
    if (node.parent == kNone) return;
    depth_[i] = depth_[node.parent] + 1;
    const bool ports = m_.kind == SourceKind::kLive || m_.kind == SourceKind::kHwlocXml;
    if (!ports || node.host_bridge) return;
    const int below_host = m_.pci[root(i)].host_bridge ? depth_[i] : depth_[i] + 1;
    if (below_host >= 3 && below_host % 2 == 1) element_[i] = node.parent;
  }

  const Machine& m_;
  std::vector<int> depth_, element_;
};

int numa_of(const Machine& m, int pci, int own) {
  if (own != kNone) return own;
  for (; pci != kNone; pci = m.pci[pci].parent)
    if (m.pci[pci].numa != kNone) return m.pci[pci].numa;
  return kNone;
}

/// What a device is attached to.
struct Place {
  int pci = kNone, numa = kNone;
};

Path beyond_switches(const Machine& m, const Tree& tree, const Place& a, const Place& b) {
  const bool have_tree = a.pci != kNone && b.pci != kNone;
  if (have_tree && tree.root(a.pci) == tree.root(b.pci)) return {.kind = PathClass::kPhb};
  if (a.numa != b.numa) return {.kind = PathClass::kSys};
  // NCCL's XML has no host bridges, but for those that we write into it.
  const bool bridges = have_tree && m.pci[tree.root(a.pci)].host_bridge && m.pci[tree.root(b.pci)].host_bridge;
  if (m.kind == SourceKind::kNcclXml && !bridges) return {.kind = PathClass::kPhb};
  return {.kind = PathClass::kNode, .known = have_tree || a.numa != kNone};
}

Path tree_path(const Machine& m, const Tree& tree, const Place& a, const Place& b) {
  if (a.pci != kNone && a.pci == b.pci) return {.kind = PathClass::kLoc};
  const int shared = a.pci == kNone || b.pci == kNone ? kNone : tree.shared(a.pci, b.pci);
  if (shared == kNone || m.pci[shared].host_bridge) return beyond_switches(m, tree, a, b);
  const int elements = tree.elements_between(a.pci, b.pci, shared);
  return {.kind = elements <= 1 ? PathClass::kPix : PathClass::kPxb, .climb = tree.climb(a.pci, shared)};
}

/// The links of GPUs to each other, summed once.
class Links {
 public:
  explicit Links(const Machine& m) : to_switch_(m.gpus.size(), 0), c2c_(m.gpus.size(), false), direct_(m.gpus.size()) {
    for (const GpuLink& link : m.links) {
      if (link.gpu == kNone) continue;
      if (link.kind == GpuLinkKind::kC2c)
        c2c_[link.gpu] = true;
      else if (link.to_switch)
        to_switch_[link.gpu] += link.count;
      else if (link.peer != kNone)
        direct_[link.gpu][link.peer] += link.count;
    }
  }

  bool c2c(int gpu) const { return c2c_[gpu]; }

  std::optional<Path> path(int a, int b) const {
    // Some sources name a link at one of its ends only.
    const int direct = std::max(direct_links(a, b), direct_links(b, a));
    const int links = std::max(direct, std::min(to_switch_[a], to_switch_[b]));
    if (links > 0) return Path{.kind = PathClass::kNvl, .nvlinks = links};
    return std::nullopt;
  }

 private:
  int direct_links(int a, int b) const {
    const auto it = direct_[a].find(b);
    return it == direct_[a].end() ? 0 : it->second;
  }

  std::vector<int> to_switch_;
  std::vector<bool> c2c_;
  std::vector<std::map<int, int>> direct_;
};

Path gpu_path(const Machine& m, const Tree& tree, const Links& links, int a, int b) {
  if (a == b) return {.kind = PathClass::kLoc};
  if (auto linked = links.path(a, b)) return *linked;
  const Gpu &x = m.gpus[a], &y = m.gpus[b];
  const Place here{x.pci, numa_of(m, x.pci, x.numa)}, there{y.pci, numa_of(m, y.pci, y.numa)};
  const bool one_cpu = here.numa != kNone && here.numa == there.numa;
  if (one_cpu && links.c2c(a) && links.c2c(b)) return {.kind = PathClass::kC2c};
  return tree_path(m, tree, here, there);
}

Path net_path(const Machine& m, const Tree& tree, int gpu, int net) {
  const Gpu& g = m.gpus[gpu];
  const NetPort& n = m.nets[net];
  return tree_path(m, tree, {g.pci, numa_of(m, g.pci, g.numa)}, {n.pci, numa_of(m, n.pci, n.numa)});
}

Path given_path(const std::vector<std::vector<PathClass>>& table, size_t row, size_t column) {
  if (row >= table.size() || column >= table[row].size()) return {.kind = PathClass::kSys, .known = false};
  return {.kind = table[row][column]};
}

Paths given_paths(const Machine& m) {
  const Links links(m);
  Paths paths;
  for (size_t g = 0; g < m.gpus.size(); ++g) {
    auto& gpus = paths.gpu_gpu.emplace_back();
    for (size_t o = 0; o < m.gpus.size(); ++o) {
      Path path = given_path(m.given->gpu_gpu, g, o);
      if (g == o)
        path = {.kind = PathClass::kLoc};
      else if (auto linked = links.path(static_cast<int>(g), static_cast<int>(o)))
        path = *linked;
      gpus.push_back(path);
    }
    auto& nets = paths.gpu_net.emplace_back();
    for (size_t n = 0; n < m.nets.size(); ++n) nets.push_back(given_path(m.given->gpu_net, g, n));
  }
  return paths;
}

}  // namespace

Paths find_paths(const Machine& m) {
  if (m.given) return given_paths(m);
  const Tree tree(m);
  const Links links(m);
  Paths paths;
  for (size_t g = 0; g < m.gpus.size(); ++g) {
    auto& gpus = paths.gpu_gpu.emplace_back();
    for (size_t o = 0; o < m.gpus.size(); ++o)
      gpus.push_back(gpu_path(m, tree, links, static_cast<int>(g), static_cast<int>(o)));
    auto& nets = paths.gpu_net.emplace_back();
    for (size_t n = 0; n < m.nets.size(); ++n)
      nets.push_back(net_path(m, tree, static_cast<int>(g), static_cast<int>(n)));
  }
  return paths;
}

}  // namespace twohop::topology
