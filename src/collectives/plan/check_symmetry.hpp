// Checking one node for all: how a cluster of equal nodes looks from each of them.
//
// Ring, log-step and flat ring treat all nodes alike: the program of node d's ranks is that of node 0's, with d added
// to the numbers of nodes, and to those of blocks as many as there are for a node. So a run in which all nodes do the
// same things at the same time is a run of the whole cluster, and it is enough to simulate node 0: what it puts to the
// node d after it is what arrives from the node d before it, seen from there. Happens-before is decided within a node
// in any case (checker.hpp). One thing differs: which operand of a reduce holds the lower rank depends on where node 0
// lies. So the operands of other nodes' programs may stand in another order, and theirs is held against their own
// ranks.
//
// Whether programs are alike is not assumed: they are compared, for some nodes.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "collectives/plan/checker.hpp"

namespace twohop {

class Rotation {
 public:
  explicit Rotation(const Cluster& cluster) : nodes_(cluster.nnodes()), group_(cluster.local_size(0)) {}

  int group() const { return group_; }
  int node(int n) const { return (n % nodes_ + nodes_) % nodes_; }
  int rank(int r, int by) const { return node(r / group_ + by) * group_ + r % group_; }
  int chunk(int index, int by, int chunks) const {
    return static_cast<int>(((index + int64_t{by} * (chunks / nodes_)) % chunks + chunks) % chunks);
  }
  /// The chunk of node 0's block that is like this one, and how far a node is from this one's block.
  int first_like(int index, int chunks) const { return index % (chunks / nodes_); }
  int from_block(int of_node, int index, int chunks) const { return node(of_node - index / (chunks / nodes_)); }

  /// Nodes that are compared with node 0: its neighbours, the middle, and some between.
  std::vector<int> samples() const;
  /// What is not alike in the programs of a rank of node 0 and of its like on node `by`; null when nothing is.
  /// `lowest(step, operand)`: the lowest rank that an operand of a reduce of node 0 holds, as it is on node `by`.
  const char* difference(const Program& here, const Program& there, int by, int chunks,
                         const std::function<int(const Step&, size_t)>& lowest) const;

 private:
  bool same(const Step& here, const Step& there, int by, int chunks) const;
  bool same(const Ref& here, const Ref& there, int by) const;
  bool same(const std::vector<LinkEnd>& here, const std::vector<LinkEnd>& there, int by) const;
  const char* operands(const Step& here, const Step& there, int by,
                       const std::function<int(const Step&, size_t)>& lowest) const;

  int nodes_, group_;
};

/// Why the calls cannot be checked by symmetry at all.
std::optional<Fault> asymmetry(const Cluster& cluster, const std::vector<CheckedCall>& calls);

Program program_of(const Cluster& cluster, const CheckedCall& call, int rank);

}  // namespace twohop
