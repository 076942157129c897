// From the cells of `nvidia-smi topo -m` to a machine with given path classes.
#include "topology/matrix.hpp"

#include <algorithm>
#include <set>

#include "topology/classify.hpp"
#include "topology/cpu_set.hpp"
#include "topology/enums.hpp"
#include "topology/finish.hpp"
#include "topology/matrix_table.hpp"
#include "topology/text.hpp"

namespace twohop::topology {
namespace {

constexpr size_t kMaxBytes = 4U << 20;
constexpr int kMostLinksOfAGpu = 18;  // more than any GPU has: then the peers are reached through switches

class Builder {
 public:
  Builder(MatrixTable table, std::string source) : table_(std::move(table)) {
    m_.kind = SourceKind::kMatrix;
    m_.source = std::move(source);
    net_names_.insert(table_.names.begin(), table_.names.end());
  }

  Machine build() {
    for (size_t i = 0; i < table_.names.size(); ++i) {
      if (is_gpu(i))
        add_gpu(i);
      else
        add_net(i);
    }
    mirror();
    fill_tables();
    for (size_t i = 0; i < gpus_.size(); ++i) add_links(static_cast<int>(i));
    name_gpus(m_);
    note_missing_links(m_);
    note_cut();
    return std::move(m_);
  }

 private:
  bool is_gpu(size_t column) const {
    const std::string_view name = table_.names[column];
    return name.starts_with("GPU") && all_digits(name.substr(3));
  }

  void add_gpu(size_t column) {
    const std::string_view name = table_.names[column];
    const MatrixRow& row = table_.rows[column];
    Gpu gpu;
    gpu.index = static_cast<int>(parse_int(name.substr(3), 0, 1'000'000).value_or(kNone));
    gpu.vendor = Vendor::kNvidia;
    gpu.numa = numa_of(row, name);
    gpus_.push_back(column);
    m_.gpus.push_back(std::move(gpu));
  }

  void add_net(size_t column) {
    const auto named = table_.legend.find(table_.names[column]);
    NetPort net;
    net.name = table_.names[column];
    // Names of columns are taken from the start: any column may have to keep its own.
    if (named != table_.legend.end() && named->second != net.name) {
      if (net_names_.insert(named->second).second)
        net.name = named->second;
      else
        add_note(m_, Note::Level::kWarning,
                 fmt::format("{}: the legend gives {} the name {}, which another has; it keeps its column's name",
                             m_.source, shown(net.name), shown(named->second)));
    }
    net.kind = rdma_kind_of_name(net.name).value_or(NetKind::kRdma);  // the table lists RDMA devices only
    net.layer = layer_of(nullptr, net.name);
    net.bond = is_bond_name(net.name);
    nets_.push_back(column);
    m_.nets.push_back(std::move(net));
  }

  /// A node per NUMA number; where the table gives none, or a list of them, a node per set of CPUs.
  int numa_of(const MatrixRow& row, std::string_view name) {
    auto cpus = row.cpus.empty() || row.cpus == "N/A" ? std::vector<CpuRange>{} : checked_cpus(row.cpus, name);
    const auto number = parse_int(row.numa, 0, 65535);
    if (!number && !row.numa.empty() && row.numa != "N/A")
      add_note(
          m_, Note::Level::kInfo,
          fmt::format("{}: {} is near NUMA nodes {}; which of them has CPUs is not said, so its node stays unknown",
                      m_.source, name, shown(row.numa)));
    const int os_index = static_cast<int>(number.value_or(kNone));
    if (os_index == kNone && cpus.empty()) return kNone;
    for (size_t i = 0; i < m_.numas.size(); ++i) {
      NumaNode& known = m_.numas[i];
      if (known.os_index != os_index || (os_index == kNone && known.cpus != cpus)) continue;
      known.cpus.insert(known.cpus.end(), cpus.begin(), cpus.end());
      known.cpus = merged(std::move(known.cpus));
      return static_cast<int>(i);
    }
    NumaNode node;
    node.os_index = os_index;
    node.cpus = std::move(cpus);
    m_.numas.push_back(std::move(node));
    return static_cast<int>(m_.numas.size()) - 1;
  }

  std::vector<CpuRange> checked_cpus(const std::string& text, std::string_view name) {
    auto cpus = parse_cpu_list(text);
    if (!cpus)
      add_note(m_, Note::Level::kWarning,
               fmt::format("{}: the CPU affinity of {} is \"{}\", which is no list of CPUs; it is not used", m_.source,
                           name, shown(text)));
    return std::move(cpus).value_or(std::vector<CpuRange>{});
  }

  /// What a missing row would say stands in the others' columns.
  void mirror() {
    const size_t n = table_.names.size();
    for (MatrixRow& row : table_.rows) row.cells.resize(n);
    size_t different = 0;
    for (size_t a = 0; a < n; ++a) {
      table_.rows[a].cells[a] = MatrixCell{PathClass::kLoc, 0};
      for (size_t b = a + 1; b < n; ++b) {
        auto &there = table_.rows[a].cells[b], &back = table_.rows[b].cells[a];
        if (!there) there = back;
        if (!back) back = there;
        if (there != back) ++different;
      }
    }
    if (different > 0)
      add_note(m_, Note::Level::kWarning,
               fmt::format("{}: {} pairs have one path in their row and another in their column; the row's is used",
                           m_.source, different));
  }

  std::vector<PathClass> row_of(size_t row, const std::vector<size_t>& columns) const {
    std::vector<PathClass> out;
    for (const size_t column : columns) {
      const auto& cell = table_.rows[row].cells[column];
      if (!cell) return {};
      out.push_back(cell->path);
    }
    return out;
  }

  void fill_tables() {
    m_.given.emplace();
    for (const size_t gpu : gpus_) {
      m_.given->gpu_gpu.push_back(row_of(gpu, gpus_));
      m_.given->gpu_net.push_back(row_of(gpu, nets_));
    }
    for (const size_t net : nets_) m_.given->net_net.push_back(row_of(net, nets_));
  }

  void add_links(int gpu) {
    const MatrixRow& row = table_.rows[gpus_[static_cast<size_t>(gpu)]];
    int sum = 0, most = 0;
    std::vector<GpuLink> links;
    for (size_t peer = 0; peer < gpus_.size(); ++peer) {
      const auto& cell = row.cells[gpus_[peer]];
      if (!cell || cell->nvlinks == 0) continue;
      sum += cell->nvlinks;
      most = std::max(most, cell->nvlinks);
      links.push_back({gpu, static_cast<int>(peer), false, GpuLinkKind::kNvlink, cell->nvlinks, 0});
    }
    if (sum > kMostLinksOfAGpu)
      m_.links.push_back({gpu, kNone, true, GpuLinkKind::kNvlink, most, 0});
    else
      m_.links.insert(m_.links.end(), links.begin(), links.end());
  }

  void note_cut() {
    std::string missing;
    for (size_t i = 0; i < table_.names.size(); ++i)
      if (!table_.rows[i].present) missing += (missing.empty() ? "" : ", ") + table_.names[i];
    for (const std::string& name : table_.cut_rows) missing += (missing.empty() ? "" : ", ") + name + " (in part)";
    if (!missing.empty())
      add_note(m_, Note::Level::kWarning,
               fmt::format("{}: the table is cut: no rows for {}; what other rows do not say of them is unknown",
                           m_.source, missing));
  }

  MatrixTable table_;
  Machine m_;
  std::vector<size_t> gpus_, nets_;  // their columns
  std::set<std::string> net_names_;
};

}  // namespace

bool looks_like_matrix(std::string_view text) {
  const std::string plain = without_escapes(text.substr(0, kMaxBytes));
  for (const std::string_view line : lines_of(plain))
    if (header_names(line)) return true;
  return false;
}

Result<Machine> read_matrix(std::string_view text, std::string source) {
  if (text.size() > kMaxBytes)
    return make_error(twohopInvalidArgument, "{}: {} bytes; tables of up to {} bytes are read", source, text.size(),
                      kMaxBytes);
  const std::string plain = without_escapes(text);
  auto table = read_table(plain, source);
  if (!table) return table.error();
  return Builder(std::move(*table), std::move(source)).build();
}

}  // namespace twohop::topology
