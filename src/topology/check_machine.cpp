// Does a machine that came from outside hang together?
#include <cmath>
#include <set>

#include "topology/finish.hpp"

namespace twohop::topology {
namespace {

template <class... Args>
Error wrong(fmt::format_string<Args...> f, Args&&... args) {
  return make_error(twohopInvalidArgument, f, std::forward<Args>(args)...);
}

bool in(int index, size_t size) {
  return index == kNone || (index >= 0 && static_cast<size_t>(index) < size);
}
bool good(double rate) {
  return std::isfinite(rate) && rate >= 0;
}

Result<void> check_pci(const Machine& m) {
  for (size_t i = 0; i < m.pci.size(); ++i) {
    const PciNode& node = m.pci[i];
    if (!in(node.parent, i)) return wrong("pci[{}]: its parent {} does not come before it", i, node.parent);
    if (!in(node.numa, m.numas.size())) return wrong("pci[{}]: there is no NUMA node with index {}", i, node.numa);
    if (!good(node.gt_per_s) || node.width < 0) return wrong("pci[{}]: speed and width must not be negative", i);
  }
  return {};
}

Result<void> check_gpus(const Machine& m) {
  std::set<std::string> names;
  for (size_t i = 0; i < m.gpus.size(); ++i) {
    const Gpu& gpu = m.gpus[i];
    if (!names.insert(gpu.name).second) return wrong("gpus[{}]: the name \"{}\" occurs twice", i, gpu.name);
    if (!in(gpu.pci, m.pci.size())) return wrong("gpus[{}]: there is no PCI node with index {}", i, gpu.pci);
    if (!in(gpu.numa, m.numas.size())) return wrong("gpus[{}]: there is no NUMA node with index {}", i, gpu.numa);
  }
  return {};
}

Result<void> check_nets(const Machine& m) {
  std::set<std::pair<std::string, int>> names;
  for (size_t i = 0; i < m.nets.size(); ++i) {
    const NetPort& net = m.nets[i];
    if (!names.emplace(net.name, net.port).second)
      return wrong("nets[{}]: \"{}\" port {} occurs twice", i, net.name, net.port);
    if (!in(net.pci, m.pci.size())) return wrong("nets[{}]: there is no PCI node with index {}", i, net.pci);
    if (!in(net.numa, m.numas.size())) return wrong("nets[{}]: there is no NUMA node with index {}", i, net.numa);
    if (!good(net.gbit_per_s) || !good(net.latency_us)) return wrong("nets[{}]: rates must not be negative", i);
  }
  return {};
}

Result<void> check_links(const Machine& m) {
  for (size_t i = 0; i < m.links.size(); ++i) {
    const GpuLink& link = m.links[i];
    if (link.gpu == kNone || !in(link.gpu, m.gpus.size()))
      return wrong("links[{}]: there is no GPU with index {}", i, link.gpu);
    if (!in(link.peer, m.gpus.size())) return wrong("links[{}]: there is no GPU with index {}", i, link.peer);
    if (link.count < 1 || !good(link.gbit_per_s)) return wrong("links[{}]: a count of {} links", i, link.count);
  }
  return {};
}

Result<void> check_given(const Machine& m) {
  if (!m.given) return {};
  const auto shape = [](const std::vector<std::vector<PathClass>>& table, size_t rows, size_t columns) {
    if (table.size() != rows) return false;
    for (const auto& row : table)
      if (!row.empty() && row.size() != columns) return false;
    return true;
  };
  const size_t gpus = m.gpus.size(), nets = m.nets.size();
  if (!shape(m.given->gpu_gpu, gpus, gpus)) return wrong("given.gpu_gpu must be {} x {}", gpus, gpus);
  if (!shape(m.given->gpu_net, gpus, nets)) return wrong("given.gpu_net must be {} x {}", gpus, nets);
  if (!shape(m.given->net_net, nets, nets)) return wrong("given.net_net must be {} x {}", nets, nets);
  return {};
}

Result<void> check_numas(const Machine& m) {
  for (size_t i = 0; i < m.numas.size(); ++i) {
    int last = -1;
    for (const CpuRange& range : m.numas[i].cpus) {
      if (range.first <= last || range.last < range.first)
        return wrong("numas[{}]: its CPU ranges are not in order", i);
      last = range.last;
    }
  }
  return {};
}

}  // namespace

Result<void> check_machine(const Machine& m) {
  for (const auto check : {check_numas, check_pci, check_gpus, check_nets, check_links, check_given})
    if (auto ok = check(m); !ok) return ok.error();
  return {};
}

}  // namespace twohop::topology
