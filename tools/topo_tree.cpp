// See topo_tree.hpp.
#include "topo_tree.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "topology/bus_id.hpp"
#include "topology/cpu_set.hpp"

namespace twohop::cli {
namespace {

using namespace topology;

class Builder {
 public:
  explicit Builder(const Machine& m) : m_(m), children_(m.pci.size()), gpus_(m.pci.size()), nets_(m.pci.size()) {
    for (size_t i = 0; i < m.pci.size(); ++i)
      if (m.pci[i].parent != kNone) children_[m.pci[i].parent].push_back(static_cast<int>(i));
    for (size_t i = 0; i < m.gpus.size(); ++i)
      if (m.gpus[i].pci != kNone) gpus_[m.gpus[i].pci].push_back(static_cast<int>(i));
    for (size_t i = 0; i < m.nets.size(); ++i)
      if (m.nets[i].pci != kNone) nets_[m.nets[i].pci].push_back(static_cast<int>(i));
  }

  std::vector<TreeNode> run() const {
    std::vector<TreeNode> tree;
    for (int n = kNone; n < static_cast<int>(m_.numas.size()); ++n) {
      TreeNode node = numa(n);
      if (n != kNone || !node.children.empty()) tree.push_back(std::move(node));
    }
    std::rotate(tree.begin(), tree.begin() + static_cast<long>(tree.size() > m_.numas.size()), tree.end());
    return tree;
  }

 private:
  TreeNode numa(int n) const {
    TreeNode node;
    node.title = numa_title(n);
    for (size_t i = 0; i < m_.pci.size(); ++i)
      if (m_.pci[i].parent == kNone && m_.pci[i].numa == n) add_below(node, static_cast<int>(i));
    for (size_t g = 0; g < m_.gpus.size(); ++g)
      if (m_.gpus[g].pci == kNone && m_.gpus[g].numa == n) node.children.push_back({"", {static_cast<int>(g)}, {}, {}});
    for (size_t p = 0; p < m_.nets.size(); ++p)
      if (m_.nets[p].pci == kNone && m_.nets[p].numa == n) node.children.push_back({"", {}, {static_cast<int>(p)}, {}});
    return node;
  }

  std::string numa_title(int n) const {
    if (n == kNone) return "no NUMA node known";
    const NumaNode& numa = m_.numas[n];
    std::string title = numa.os_index == kNone ? "NUMA node not numbered" : fmt::format("NUMA node {}", numa.os_index);
    if (!numa.cpus.empty()) title += fmt::format(", CPUs {}", to_cpu_list(numa.cpus));
    return title;
  }

  /// A host bridge is no box of its own: what is beneath it is shown in its place.
  void add_below(TreeNode& parent, int pci) const {
    if (m_.pci[pci].host_bridge && gpus_[pci].empty() && nets_[pci].empty()) {
      for (int c : children_[pci]) add_below(parent, c);
      return;
    }
    TreeNode node = branch(pci);
    if (node.is_device() || !node.children.empty()) parent.children.push_back(std::move(node));
  }

  TreeNode branch(int pci) const {
    TreeNode node;
    node.gpus = gpus_[pci];
    node.nets = nets_[pci];
    for (int c : children_[pci]) {
      TreeNode child = branch(c);
      if (child.is_device() || !child.children.empty()) node.children.push_back(std::move(child));
    }
    const bool bare = node.gpus.empty() && node.nets.empty();
    if (bare && node.children.size() == 1) return std::move(node.children[0]);
    const char* what = node.children.empty() ? "" : bare ? "switch " : "";
    node.title = what + to_string(m_.pci[pci].bus);
    return node;
  }

  const Machine& m_;
  std::vector<std::vector<int>> children_, gpus_, nets_;
};

}  // namespace

std::vector<TreeNode> display_tree(const Machine& machine) {
  return Builder(machine).run();
}

}  // namespace twohop::cli
