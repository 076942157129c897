// Machines built in code, for tests that need one detail and no file.
#pragma once

#include <fmt/format.h>

#include <string>

#include "topology/rails.hpp"

namespace twohop::topology {

class MachineBuilder {
 public:
  explicit MachineBuilder(SourceKind kind = SourceKind::kNcclXml) {
    m.kind = kind;
    m.source = "a machine made up";
  }

  int numa() {
    NumaNode node;
    node.os_index = static_cast<int>(m.numas.size());
    m.numas.push_back(node);
    return static_cast<int>(m.numas.size()) - 1;
  }
  int root(int numa, bool host_bridge = false) {
    PciNode node;
    node.bus = next_bus();
    node.numa = numa;
    node.is_switch = true;
    node.host_bridge = host_bridge;
    return add(node);
  }
  int bridge(int parent) {
    PciNode node;
    node.bus = next_bus();
    node.parent = parent;
    node.numa = m.pci[parent].numa;
    node.is_switch = true;
    return add(node);
  }
  int device(int parent, int numa = kNone) {
    PciNode node;
    node.bus = next_bus();
    node.parent = parent;
    node.numa = parent == kNone ? numa : m.pci[parent].numa;
    return add(node);
  }
  int gpu(int pci, Vendor vendor = Vendor::kNvidia) {
    Gpu g;
    g.index = static_cast<int>(m.gpus.size());
    g.name = fmt::format("GPU{}", g.index);
    g.pci = pci;
    g.numa = pci == kNone ? kNone : m.pci[pci].numa;
    g.vendor = vendor;
    m.gpus.push_back(g);
    return g.index;
  }
  NetPort& net(int pci, double gbit_per_s = 200) {
    NetPort n;
    n.name = fmt::format("mlx5_{}", m.nets.size());
    n.pci = pci;
    n.numa = pci == kNone ? kNone : m.pci[pci].numa;
    n.gbit_per_s = gbit_per_s;
    m.nets.push_back(n);
    return m.nets.back();
  }
  void nvlink(int gpu, int peer, int count) { m.links.push_back({.gpu = gpu, .peer = peer, .count = count}); }
  void nvswitch(int gpu, int count) { m.links.push_back({.gpu = gpu, .to_switch = true, .count = count}); }

  Machine m;

 private:
  BusId next_bus() { return {.domain = 0, .bus = static_cast<uint8_t>(m.pci.size() + 1)}; }
  int add(const PciNode& node) {
    m.pci.push_back(node);
    return static_cast<int>(m.pci.size()) - 1;
  }
};

/// "GPU0: mlx5_0 mlx5_1; GPU1: mlx5_2".
inline std::string assignment_text(const Machine& m, const RailChoice& choice) {
  std::string text;
  for (size_t g = 0; g < choice.assignment.size(); ++g) {
    text += fmt::format("{}{}:", g ? "; " : "", m.gpus[g].name);
    for (int r : choice.assignment[g].rails) text += " " + port_name(m, choice.rails[r].net);
  }
  return text;
}

inline std::string rejected_text(const Machine& m, const RailChoice& choice) {
  std::string text;
  for (const RejectedPort& r : choice.rejected) text += port_name(m, r.net) + ": " + r.reason + "\n";
  return text;
}

inline bool says(const std::vector<std::string>& lines, const std::string& part) {
  for (const std::string& line : lines)
    if (line.find(part) != std::string::npos) return true;
  return false;
}

inline RailChoice choose(const Machine& m) {
  return choose_rails(m, find_paths(m));
}

}  // namespace twohop::topology
