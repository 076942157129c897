// The PCI tree as people want to see it: without branches that hold neither GPU nor port, and with chains of bridges
// drawn as one.
#pragma once

#include <string>
#include <vector>

#include "topology/machine.hpp"

namespace twohop::cli {

struct TreeNode {
  std::string title;  // "NUMA node 0", "switch 0000:3b:00.0", "0000:3c:00.0"
  std::vector<int> gpus, nets;
  std::vector<TreeNode> children;
  bool is_device() const { return children.empty() && (!gpus.empty() || !nets.empty()); }
};

/// One node per NUMA node, and one for what is attached to none.
std::vector<TreeNode> display_tree(const topology::Machine& machine);

}  // namespace twohop::cli
