// What a collective means, for the checker: which chunks a rank has as input and must have as output, and whose
// contributions they must hold in the end.
#pragma once

#include "collectives/plan/cluster.hpp"
#include "collectives/plan/rank_sets.hpp"
#include "collectives/plan/schedule.hpp"

namespace twohop {

class Meaning {
 public:
  Meaning(const Cluster& cluster, const Frame& frame) : cluster_(&cluster), frame_(frame) {}

  const Frame& frame() const { return frame_; }
  /// Contributions are folded, and so scaled and, for an average, divided.
  bool reduces() const {
    return frame_.collective == Collective::kAllReduce || frame_.collective == Collective::kReduceScatter;
  }
  /// A chunk without bytes: shards that a smaller node has no rank for.
  bool is_void(int shard, int chunk) const { return blocked() && shard >= cluster_->local_size(block_node(chunk)); }
  bool has_input(int rank, int shard, int chunk) const {
    if (frame_.collective == Collective::kBroadcast) return rank == frame_.root;
    return frame_.collective != Collective::kAllGather || block_owner(shard, chunk) == rank;
  }
  bool has_output(int rank, int shard, int chunk) const {
    if (frame_.collective != Collective::kReduceScatter) return true;
    return !is_void(shard, chunk) && block_owner(shard, chunk) == rank;
  }
  RankSets::Id expected(const RankSets& sets, int shard, int chunk) const {
    if (reduces()) return sets.all();
    return sets.single(frame_.collective == Collective::kBroadcast ? frame_.root : block_owner(shard, chunk));
  }

 private:
  /// Reduce-scatter and all-gather: the chunks belong to blocks of nodes, the shards of a block to its ranks.
  bool blocked() const {
    return frame_.collective == Collective::kReduceScatter || frame_.collective == Collective::kAllGather;
  }
  int block_node(int chunk) const { return chunk / frame_.chunks_per_block; }
  int block_owner(int shard, int chunk) const {
    return cluster_->nodes[block_node(chunk)][cluster_->local_owner(block_node(chunk), shard)];
  }

  const Cluster* cluster_;
  Frame frame_;
};

}  // namespace twohop
