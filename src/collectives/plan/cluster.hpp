// Cluster: which rank sits on which node. The only thing about the machines that a schedule knows.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace twohop {

struct Cluster {
  std::vector<int> node_of;             // by rank; nodes are numbered by their lowest rank
  std::vector<int> local_of;            // by rank: index among the ranks of its node
  std::vector<std::vector<int>> nodes;  // by node: its ranks, ascending
  std::vector<int32_t> rank_at;         // the same as a table [node][local], -1 where a node has no such rank
  /// Rails that every node has: the rank with index i on its node is near rail i modulo this.
  int rails = 1;

  int nranks() const { return static_cast<int>(node_of.size()); }
  int nnodes() const { return static_cast<int>(nodes.size()); }
  int local_size(int node) const { return static_cast<int>(nodes[node].size()); }
  int max_local_size() const;
  int min_local_size() const;
  /// The local rank that stands for shard `shard` (0 .. max_local_size() - 1) on a node: the shard's own where there is
  /// one, else one near the same rail, else any.
  int local_owner(int node, int shard) const;
  int rail_of(int rank) const { return local_of[rank] % rails; }
  const std::vector<int>& peers_of(int rank) const { return nodes[node_of[rank]]; }
};

/// What Cluster::rails may be, where each rank has rails of its own (numbers, the same on all nodes): the largest
/// number that ranks are apart by their index, modulo it, have no rail in common. 1 where there is none, as where all
/// ranks use all rails.
int rails_by_index(const Cluster& cluster, std::span<const std::vector<int>> rails_of_rank);

/// `node_key[r]` equal for ranks of one node; any values.
Cluster make_cluster(std::span<const int> node_key);

}  // namespace twohop
