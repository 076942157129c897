// The frame of the two-hop schedules: shards, owners, lanes, and the positions at which lanes signal.
//
// The data has P shards, P = the largest number of ranks on a node. On every node each shard has one owner.
// Reduce-scatter inside the node to the owners, a ring among the owners of one shard over the nodes, all-gather inside
// the node.
//
//   stage    copies own contributions to other owners' shards into the window
//   reduce   owner: folds all local contributions of a chunk into its area of the shard
//   spread   copies finished chunks from their owners' windows and inboxes to the output
//   ring     per owned shard: reduce-scatter around the nodes (on a link of its own)
//   gather   per owned shard: all-gather around the nodes (on a link of its own)
//   credit   per owned shard: gives gathered slots back once all local ranks have read them
//
// Reduce-scatter and all-gather are lanes of their own so that a round's reduce-scatter overlaps the gather of the
// round before.
#pragma once

#include <algorithm>

#include "collectives/plan/algorithm.hpp"
#include "collectives/plan/builder.hpp"

namespace twohop::two_hop {

enum Lane : int { kStage = 0, kReduce = 1, kSpread = 2, kFirstShardLane = 3 };

/// Where one rank stands.
struct Place {
  explicit Place(const Request& r, int rank)
      : request(r),
        cluster(*r.cluster),
        me(rank),
        node(cluster.node_of[rank]),
        local(cluster.local_of[rank]),
        group(cluster.local_size(node)),
        nodes(cluster.nnodes()),
        shards(cluster.max_local_size()),
        k(r.depths.chunks_per_put),
        blocks(r.depths.blocks) {
    for (int s = local; s < shards; s += group) owned.push_back(s);
  }

  const Request& request;
  const Cluster& cluster;
  int me, node, local, group, nodes, shards, k, blocks;
  std::vector<int> owned;  // shards that this rank owns, ascending

  int owner(int of_node, int shard) const {
    const auto& ranks = cluster.nodes[of_node];
    return ranks[shard % static_cast<int>(ranks.size())];
  }
  int owner(int shard) const { return owner(node, shard); }
  const std::vector<int>& peers() const { return cluster.nodes[node]; }
  int next_node() const { return (node + 1) % nodes; }
  int prev_node() const { return (node + nodes - 1) % nodes; }
  int mod_node(int x) const { return ((x % nodes) + nodes) % nodes; }

  /// How many shards local rank `q` (index on this node) owns, and the place of `shard` among its owner's.
  int owned_by(int q) const { return (shards - q + group - 1) / group; }
  int ordinal(int shard) const { return shard / group; }
  int ring_lane(int shard) const { return kFirstShardLane + 3 * ordinal(shard); }
  int gather_lane(int shard) const { return ring_lane(shard) + 1; }
  int credit_lane(int shard) const { return ring_lane(shard) + 2; }
};

constexpr int ring_tag(int shard) {
  return 2 * shard;
}
constexpr int gather_tag(int shard) {
  return 2 * shard + 1;
}

Program broadcast(const Request& request, int rank);

}  // namespace twohop::two_hop
