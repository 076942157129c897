// The common end of all readers.
#include "topology/finish.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

#include "topology/bus_id.hpp"

namespace twohop::topology {
namespace {

constexpr size_t kMaxNotes = 100;  // a hostile file could otherwise cause one per element

BusId bus_of(const Machine& m, const Gpu& gpu) {
  return gpu.pci == kNone ? BusId{} : m.pci[static_cast<size_t>(gpu.pci)].bus;
}

std::string base_name(const Gpu& gpu, int with_that_index) {
  if (gpu.mlopart != kNone && with_that_index > 1) return fmt::format("GPU{}.{}", gpu.index, gpu.mlopart);
  return fmt::format("GPU{}", gpu.index);
}

}  // namespace

void name_gpus(Machine& m) {
  std::set<int> taken;
  std::vector<Gpu*> unnumbered;
  for (Gpu& gpu : m.gpus) {
    if (gpu.index == kNone)
      unnumbered.push_back(&gpu);
    else
      taken.insert(gpu.index);
  }
  std::stable_sort(unnumbered.begin(), unnumbered.end(), [&](Gpu* a, Gpu* b) { return bus_of(m, *a) < bus_of(m, *b); });
  int next = 0;
  for (Gpu* gpu : unnumbered) {
    while (taken.contains(next)) ++next;
    gpu->index = next++;
  }
  std::set<std::string> names;
  std::map<std::string, int> copies;
  std::map<int, int> with_index;
  for (const Gpu& gpu : m.gpus) ++with_index[gpu.index];
  for (Gpu& gpu : m.gpus) {
    const std::string base = base_name(gpu, with_index[gpu.index]);
    gpu.name = base;
    while (!names.insert(gpu.name).second) gpu.name = fmt::format("{}#{}", base, 1 + ++copies[base]);
  }
}

void number_nets(Machine& m) {
  std::set<int> taken;
  for (const NetPort& net : m.nets) taken.insert(net.dev);
  int next = 0;
  for (NetPort& net : m.nets) {
    if (net.dev != kNone) continue;
    while (taken.contains(next)) ++next;
    net.dev = next++;
  }
}

void sort_gpus(Machine& m) {
  std::vector<int> order(m.gpus.size()), place(m.gpus.size());
  std::iota(order.begin(), order.end(), 0);
  const auto key = [&](int i) {
    const Gpu& gpu = m.gpus[static_cast<size_t>(i)];
    return std::pair(gpu.index, gpu.mlopart);
  };
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return key(a) < key(b); });
  std::vector<Gpu> gpus;
  for (size_t i = 0; i < order.size(); ++i) {
    gpus.push_back(std::move(m.gpus[static_cast<size_t>(order[i])]));
    place[static_cast<size_t>(order[i])] = static_cast<int>(i);
  }
  m.gpus = std::move(gpus);
  for (GpuLink& link : m.links) {
    link.gpu = place[static_cast<size_t>(link.gpu)];
    if (link.peer != kNone) link.peer = place[static_cast<size_t>(link.peer)];
  }
  std::stable_sort(m.links.begin(), m.links.end(), [](const GpuLink& a, const GpuLink& b) { return a.gpu < b.gpu; });
}

void merge_links(Machine& m) {
  std::map<std::tuple<int, int, bool, GpuLinkKind>, size_t> known;
  std::vector<GpuLink> links;
  for (const GpuLink& link : m.links) {
    const auto [at, is_new] = known.emplace(std::tuple(link.gpu, link.peer, link.to_switch, link.kind), links.size());
    if (is_new) {
      links.push_back(link);
    } else if (links[at->second].count + link.count <= kMaxGpuLinks) {
      links[at->second].count += link.count;
      links[at->second].gbit_per_s += link.gbit_per_s;
    }
  }
  m.links = std::move(links);
}

void note_missing_links(Machine& m) {
  std::set<int> linked;
  std::map<std::pair<uint16_t, uint16_t>, int> linked_of_kind;
  const auto kind_of = [&](const Gpu& gpu) {
    if (gpu.pci == kNone) return std::pair<uint16_t, uint16_t>();
    const PciNode& node = m.pci[static_cast<size_t>(gpu.pci)];
    return std::pair(node.vendor, node.device);
  };
  for (const GpuLink& link : m.links)
    if (link.kind != GpuLinkKind::kC2c && linked.insert(link.gpu).second)
      ++linked_of_kind[kind_of(m.gpus[static_cast<size_t>(link.gpu)])];
  for (size_t i = 0; i < m.gpus.size(); ++i) {
    // A single pair beside unlinked GPUs is a way to build machines; a single GPU left out is not.
    const int others = linked_of_kind[kind_of(m.gpus[i])];
    if (!linked.contains(static_cast<int>(i)) && others > 0 && static_cast<size_t>(others) * 2 > m.gpus.size())
      add_note(
          m, Note::Level::kWarning,
          fmt::format(
              "{} has no NVLink although {} GPUs of its kind have: the link is down or the GPU was excluded from the "
              "fabric (look at nvidia-smi nvlink -s and the fabric manager); it is not used over NVLink",
              m.gpus[i].name, others));
  }
}

void add_note(Machine& m, Note::Level level, std::string text) {
  if (m.notes.size() < kMaxNotes) m.notes.push_back({level, std::move(text)});
}

}  // namespace twohop::topology
