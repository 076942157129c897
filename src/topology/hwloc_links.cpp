// Links between GPUs out of hwloc's distance matrices.
#include <algorithm>
#include <cmath>

#include "topology/hwloc_parts.hpp"
#include "topology/text.hpp"

namespace twohop::topology {
namespace {

constexpr size_t kMaxObjects = 1024;
constexpr double kMaxLinks = 64;
// Of one link, one way; only used to count links, and right for all generations of the last years but the first and the
// newest.
constexpr double kNvlinkMbytesPerS = 25000;
constexpr double kXgmiMbytesPerS = 50000;

/// The words in all children of one name.
std::vector<std::string_view> words_in(pugi::xml_node matrix, const char* child) {
  std::vector<std::string_view> words;
  for (const pugi::xml_node part : matrix.children(child))
    for (const std::string_view word : words_of(part.child_value())) words.push_back(word);
  return words;
}

constexpr int kCpu = -2;  // in place of a PCI node: a package or NUMA node (POWER9 has NVLinks to its CPUs)

/// PCI nodes of the matrix' objects; kCpu, or kNone for one that is neither.
std::vector<int> objects_of(const HwlocParts& parts, pugi::xml_node matrix) {
  const std::string type = matrix.attribute("type").value();  // one type for all, or "OSDev:802" each
  std::vector<int> pci;
  for (const std::string_view word : words_in(matrix, "indexes")) {
    const bool typed = word.find(':') != std::string_view::npos;
    const auto at = parts.pci_of_object.find(typed ? std::string(word) : fmt::format("{}:{}", type, word));
    const std::string_view kind = typed ? word.substr(0, word.find(':')) : std::string_view(type);
    const int other = kind == "Package" || kind == "NUMANode" ? kCpu : kNone;
    pci.push_back(at == parts.pci_of_object.end() ? other : at->second);
  }
  return pci;
}

void add_matrix(HwlocParts& parts, pugi::xml_node matrix, GpuLinkKind kind, double link_mbytes_per_s) {
  Machine& m = parts.machine;
  std::map<int, int> gpu_of_pci;
  for (size_t i = 0; i < m.gpus.size(); ++i) gpu_of_pci.emplace(m.gpus[i].pci, static_cast<int>(i));
  const std::vector<int> objects = objects_of(parts, matrix);
  const std::vector<std::string_view> values = words_in(matrix, "u64values");
  const size_t n = objects.size();
  if (n == 0 || n > kMaxObjects || values.size() != n * n) return;
  for (size_t row = 0; row < n; ++row) {
    const auto gpu = gpu_of_pci.find(objects[row]);
    if (gpu == gpu_of_pci.end()) continue;
    for (size_t column = 0; column < n; ++column) {
      const auto mbytes_per_s = parse_int(values[row * n + column], 0, INT32_MAX);
      if (!mbytes_per_s || *mbytes_per_s == 0 || row == column || objects[column] == objects[row] ||
          objects[column] == kNone)
        continue;
      const auto peer = gpu_of_pci.find(objects[column]);
      GpuLink link;
      link.gpu = gpu->second;
      link.peer = peer == gpu_of_pci.end() ? kNone : peer->second;
      link.to_switch = link.peer == kNone && objects[column] != kCpu;  // what is neither GPU nor CPU is an NVSwitch
      link.kind = kind;
      link.gbit_per_s = static_cast<double>(*mbytes_per_s) * 8 / 1000;
      link.count = static_cast<int>(
          std::clamp(std::round(static_cast<double>(*mbytes_per_s) / link_mbytes_per_s), 1.0, kMaxLinks));
      m.links.push_back(link);
    }
  }
}

}  // namespace

void add_links(HwlocParts& parts, pugi::xml_node topology) {
  for (const pugi::xml_node matrix : topology.children()) {
    if (!std::string_view(matrix.name()).starts_with("distances2")) continue;
    const std::string_view name = matrix.attribute("name").value();
    if (name == "NVLinkBandwidth") add_matrix(parts, matrix, GpuLinkKind::kNvlink, kNvlinkMbytesPerS);
    if (name == "XGMIBandwidth") add_matrix(parts, matrix, GpuLinkKind::kXgmi, kXgmiMbytesPerS);
  }
}

}  // namespace twohop::topology
