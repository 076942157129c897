// See rail_findings.hpp. One function per finding.
#include "topology/rail_findings.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <map>
#include <optional>

namespace twohop::topology {
namespace {

constexpr size_t kMaxNamed = 16;

std::string enumeration(std::vector<std::string> names) {
  const size_t more = names.size() > kMaxNamed ? names.size() - kMaxNamed : 0;
  names.resize(names.size() - more);
  return fmt::format("{}{}", fmt::join(names, ", "), more ? fmt::format(" and {} more", more) : "");
}

struct Findings {
  const Machine& m;
  const Paths& paths;
  const UsablePorts& usable;
  RailChoice& choice;

  template <class... Args>
  void warn(fmt::format_string<Args...> f, Args&&... args) {
    choice.warnings.push_back(fmt::format(f, std::forward<Args>(args)...));
  }
  template <class... Args>
  void note(fmt::format_string<Args...> f, Args&&... args) {
    choice.notes.push_back(fmt::format(f, std::forward<Args>(args)...));
  }

  std::string gpus(const std::vector<int>& list) const {
    std::vector<std::string> names;
    for (int g : list) names.push_back(m.gpus[g].name);
    return enumeration(names);
  }
  std::string ports(const std::vector<int>& nets) const {
    std::vector<std::string> names;
    for (int n : nets) names.push_back(port_name(m, n));
    return enumeration(names);
  }
  std::string rail_ports(const std::vector<int>& rails) const {
    std::vector<int> nets;
    for (int r : rails) nets.push_back(choice.rails[r].net);
    return ports(nets);
  }
  /// GPUs for which `is` holds.
  template <class F>
  std::vector<int> gpus_where(F is) const {
    std::vector<int> found;
    for (size_t g = 0; g < m.gpus.size(); ++g)
      if (is(static_cast<int>(g))) found.push_back(static_cast<int>(g));
    return found;
  }
};

void source_notes(Findings& f) {
  for (const Note& n : f.m.notes)
    (n.level == Note::Level::kWarning ? f.choice.warnings : f.choice.notes).push_back(n.text);
}

void which_gpus(Findings& f) {
  if (f.m.gpus.empty()) {
    f.warn("no GPU in {}: ports serve host buffers, and nothing says which is nearest", f.m.source);
    return;
  }
  const std::vector<Vendor> found = vendors(f.m);
  if (found.size() < 2) return;
  std::vector<std::string> names;
  for (Vendor v : found) names.emplace_back(name_of(v));
  f.warn(
      "GPUs of {} in one machine: they cannot work on one buffer, so none is given rails; hide one kind from the job "
      "(CUDA_VISIBLE_DEVICES, ROCR_VISIBLE_DEVICES)",
      fmt::join(names, " and "));
}

void no_rdma(Findings& f) {
  if (!f.usable.ports.empty()) {
    if (!f.choice.verbs)
      f.warn(
          "verbs can use none of the RDMA devices ({}): they need their own provider (EFA, Slingshot); the nearest are "
          "named, 0 rails are usable over verbs",
          f.ports(f.usable.ports));
    return;
  }
  const bool rdma = std::any_of(f.m.nets.begin(), f.m.nets.end(), [](const NetPort& n) {
    return n.kind == NetKind::kRdma || n.kind == NetKind::kOtherRdma;
  });
  const char* what = rdma ? "no RDMA port is usable" : "no RDMA NIC";
  if (f.choice.sockets.empty())
    f.warn("{}, and no physical interface for TCP either{}", what,
           f.m.nets.empty() ? "" : ": name one in TWOHOP_SOCKET_IFNAME if it is wanted");
  else
    f.warn("{}: data goes over TCP on {}", what, f.ports(f.choice.sockets));
}

void far_gpus(Findings& f) {
  const auto far = f.gpus_where(
      [&](int g) { return !f.choice.assignment[g].rails.empty() && !is_near(f.choice.assignment[g].path); });
  if (far.empty()) return;
  if (far.size() == f.m.gpus.size() && f.choice.rails.size() > 1) {
    f.warn("every way from a GPU to a port is SYS: which is nearest cannot be decided from {}; all {} are kept",
           f.m.source, f.choice.rails.size());
    return;
  }
  std::map<std::vector<int>, std::vector<int>> by_rails;
  for (int g : far) by_rails[f.choice.assignment[g].rails].push_back(g);
  for (const auto& [rails, gpus] : by_rails)
    f.warn("no port is near {}: {} used across NUMA nodes (SYS)", f.gpus(gpus),
           f.rail_ports(rails) + (rails.size() > 1 ? " are" : " is"));
}

void unknown_gpus(Findings& f) {
  const auto unknown = f.gpus_where([&](int g) {
    const auto& row = f.paths.gpu_net[g];
    return !f.usable.ports.empty() &&
           std::none_of(f.usable.ports.begin(), f.usable.ports.end(), [&](int n) { return row[n].known; });
  });
  if (!unknown.empty())
    f.warn("{} says nothing about the ways of {} to the ports: no rail can be given", f.m.source, f.gpus(unknown));
}

void uneven_loads(Findings& f) {
  if (f.choice.rails.size() < 2 || f.m.gpus.empty()) return;
  std::vector<size_t> loads;
  for (const Rail& r : f.choice.rails) loads.push_back(r.gpus.size());
  const auto [least, most] = std::minmax_element(loads.begin(), loads.end());
  if (*least == *most || *most == 0) return;
  f.warn("rails are loaded unevenly: {} GPUs on rails {}", fmt::join(loads, ", "),
         fmt::join(
             [&] {
               std::vector<std::string> names;
               for (const Rail& r : f.choice.rails) names.push_back(port_name(f.m, r.net));
               return names;
             }(),
             ", "));
}

/// A port that is near to GPUs which share a nearer one.
void idle_ports(Findings& f) {
  for (int net : f.usable.ports) {
    if (std::any_of(f.choice.rails.begin(), f.choice.rails.end(), [net](const Rail& r) { return r.net == net; }))
      continue;
    std::map<PathClass, std::vector<int>> helped;
    for (int g : by_index(f.m)) {
      const Path& path = f.paths.gpu_net[g][net];
      const auto& rails = f.choice.assignment[g].rails;
      const bool shares = rails.size() == 1 && f.choice.rails[rails[0]].gpus.size() > 1;
      if (shares && path.known && is_near(path.kind)) helped[path.kind].push_back(g);
    }
    if (helped.empty()) continue;
    const auto& [kind, gpus] = *helped.begin();
    f.warn("{} is idle: it is {} to {}, which share a nearer port; name it in TWOHOP_IB_HCA to use it too",
           port_name(f.m, net), name_of(kind), f.gpus(gpus));
  }
}

/// Links of each GPU, over NVLink or xGMI, to whatever.
std::vector<int> link_counts(const Findings& f) {
  std::vector<int> counts;
  for (size_t g = 0; g < f.m.gpus.size(); ++g) {
    int outgoing = 0, incoming = 0;
    for (const GpuLink& l : f.m.links) {
      if (l.kind == GpuLinkKind::kC2c) continue;
      if (l.gpu == static_cast<int>(g)) outgoing += l.count;
      if (l.peer == static_cast<int>(g)) incoming += l.count;
    }
    counts.push_back(std::max(outgoing, incoming));
  }
  return counts;
}

void broken_links(Findings& f) {
  const std::vector<int> counts = link_counts(f);
  if (counts.size() < 3) return;
  std::map<int, size_t> how_many;
  for (int c : counts) ++how_many[c];
  const auto usual = std::max_element(how_many.begin(), how_many.end(),
                                      [](const auto& a, const auto& b) { return a.second < b.second; });
  if (usual->first == 0 || usual->second * 2 <= counts.size()) return;
  for (size_t g = 0; g < counts.size(); ++g) {
    if (counts[g] >= usual->first) continue;
    const auto& row = f.paths.gpu_gpu[g];
    if (std::all_of(row.begin(), row.end(), [](const Path& p) { return !p.known || p.kind == PathClass::kLoc; }))
      continue;
    // Those without any are noted by the readers.
    if (counts[g] > 0 && !f.m.given)
      f.warn("{} has {} GPU links, its siblings {}: links are down", f.m.gpus[g].name, counts[g], usual->first);
  }
}

/// A GPU with a far or shared rail may hand its data over NVLink to a sibling with a better one.
void sibling_rails(Findings& f) {
  for (size_t g = 0; g < f.m.gpus.size(); ++g) {
    const GpuRails& own = f.choice.assignment[g];
    if (own.rails.empty() || is_near(own.path)) continue;
    for (size_t s = 0; s < f.m.gpus.size(); ++s) {
      const GpuRails& theirs = f.choice.assignment[s];
      if (f.paths.gpu_gpu[g][s].kind != PathClass::kNvl || theirs.rails.empty() || !is_near(theirs.path)) continue;
      f.note("{} could send over its GPU links and {}'s rail {} (as PXN does)", f.m.gpus[g].name, f.m.gpus[s].name,
             f.rail_ports(theirs.rails));
      break;
    }
  }
}

void thin_pci_links(Findings& f) {
  std::map<int, std::vector<int>> by_device;
  for (const Rail& r : f.choice.rails)
    if (f.m.nets[r.net].pci != kNone) by_device[f.m.nets[r.net].pci].push_back(r.net);
  std::map<std::pair<double, double>, std::vector<int>> by_figures;
  for (const auto& [pci, nets] : by_device) {
    const PciNode& node = f.m.pci[pci];
    double wanted = 0;
    for (int n : nets) wanted += f.m.nets[n].gbit_per_s;
    const double link = node.gt_per_s * node.width * (node.gt_per_s > 6 ? 128.0 / 130 : 0.8);
    if (link > 0 && wanted > link * 1.05) {
      auto& all = by_figures[{wanted, link}];
      all.insert(all.end(), nets.begin(), nets.end());
    }
  }
  for (const auto& [figures, nets] : by_figures)
    f.note("{}: the ports of a card could carry {:.0f} Gbit/s, its PCI link carries {:.0f}", f.ports(nets),
           figures.first, figures.second);
}

void no_gpu_direct(Findings& f) {
  const auto without = f.gpus_where([&](int g) { return !f.m.gpus[g].gdr && !f.choice.assignment[g].rails.empty(); });
  if (!without.empty()) f.note("no GPUDirect for {}: data is staged through host memory", f.gpus(without));
}

/// In a flat tree every pairing inside a tie looks the same.
void undecided_order(Findings& f) {
  const auto tied = f.gpus_where([&](int g) {
    const GpuRails& a = f.choice.assignment[g];
    if (a.rails.empty() || a.path < PathClass::kPhb || !is_near(a.path)) return false;
    const auto equal = std::count_if(f.usable.ports.begin(), f.usable.ports.end(),
                                     [&](int n) { return f.paths.gpu_net[g][n].kind == a.path; });
    return equal > static_cast<long>(a.rails.size());
  });
  if (!tied.empty())
    f.note("which of its near ports is the nearest to each of {} cannot be read from {}; they are taken in order",
           f.gpus(tied), f.m.source);
}

/// The bus in a predictable name: "rdmap79s0" and "enp79s0f1" are on bus 79. Nothing for other names.
std::optional<unsigned> bus_in_name(const std::string& name) {
  for (const char* prefix : {"rdmap", "rocep", "enp", "ibp"}) {
    if (!name.starts_with(prefix)) continue;
    const char* begin = name.data() + std::strlen(prefix);
    const char* end = name.data() + name.size();
    unsigned bus = 0;
    const auto [rest, failed] = std::from_chars(begin, end, bus);
    if (failed == std::errc() && rest != end && *rest == 's' && bus <= 255) return bus;
  }
  return std::nullopt;
}

/// Names are given by the bus: a source in which they disagree was not read from one machine.
void names_and_buses(Findings& f) {
  std::vector<int> wrong;
  for (size_t n = 0; n < f.m.nets.size(); ++n) {
    const NetPort& port = f.m.nets[n];
    if (port.pci == kNone) continue;
    const auto bus = bus_in_name(port.name);
    if (bus && *bus != f.m.pci[port.pci].bus.bus) wrong.push_back(static_cast<int>(n));
  }
  if (wrong.empty()) return;
  const NetPort& first = f.m.nets[wrong[0]];
  f.warn(
      "{} of {} ports are not on the bus that their names say ({} is bus {:#x}, the source has it on {:#x}): {} does "
      "not "
      "describe one real machine; do not rely on it",
      wrong.size(), f.m.nets.size(), first.name, *bus_in_name(first.name), f.m.pci[first.pci].bus.bus, f.m.source);
}

}  // namespace

std::vector<Vendor> vendors(const Machine& m) {
  std::vector<Vendor> found;
  for (const Gpu& g : m.gpus)
    if (g.vendor != Vendor::kUnknown && !g.integrated && std::find(found.begin(), found.end(), g.vendor) == found.end())
      found.push_back(g.vendor);
  return found;
}

void add_findings(const Machine& machine, const Paths& paths, const UsablePorts& usable, RailChoice& choice) {
  Findings f{machine, paths, usable, choice};
  for (auto finding : {source_notes, which_gpus, no_rdma, far_gpus, unknown_gpus, uneven_loads, idle_ports,
                       broken_links, sibling_rails, thin_pci_links, no_gpu_direct, undecided_order, names_and_buses})
    finding(f);
}

}  // namespace twohop::topology
