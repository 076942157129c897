// The two-hop frame: shards, owners, lanes, and the positions at which lanes signal. An algorithm is this frame with an
// exchange between the nodes (Exchange below).
//
// The data has P shards, P = the largest number of ranks on a node. On every node each shard has one owner.
// Reduce-scatter inside the node to the owners, an exchange among the owners of one shard over the nodes, all-gather
// inside the node.
//
//   stage    makes own contributions to other owners' shards readable: copies them into the window (direct), or adds
//            them to what the neighbour has folded so far (ring)
//   reduce   owner: folds the local contributions of a chunk into its area of the shard
//   spread   copies finished chunks from their owners' windows and inboxes to the output
//   and, per owned shard, the lanes of the exchange
//
// A round has, per shard, `blocks` blocks of k chunks. Reduce handles them in the exchange's order (items), and so does
// spread; both orders are the exchange's choice.
#pragma once

#include <algorithm>
#include <memory>

#include "collectives/plan/algorithm.hpp"
#include "collectives/plan/builder.hpp"

namespace twohop::two_hop {

enum Lane : int { kStage = 0, kReduce = 1, kSpread = 2, kFirstShardLane = 3 };
constexpr int kMaxLanesPerShard = 6;

/// How contributions are reduced inside the node.
enum class NodeStage : uint8_t { kDirect, kRing };

/// Tags of the links of one shard. Links of several exchanges between the same two ranks are the same links.
enum class LinkKind : uint8_t { kScatter, kGather, kUp0, kUp1, kDown0, kDown1 };
constexpr int tag(int shard, LinkKind kind) {
  return 8 * shard + static_cast<int>(kind);
}

/// Where one rank stands.
class Place {
 public:
  Place(const Request& r, int rank);

  const Request& request;
  const Cluster& cluster;
  int me, node, local, group, nodes, shards, k;
  std::vector<int> owned;  // shards that this rank owns, ascending

  int owner(int of_node, int shard) const { return cluster.nodes[of_node][cluster.local_owner(of_node, shard)]; }
  int local_owner(int shard) const { return local_owner_[shard]; }
  int owner(int shard) const { return peers()[local_owner_[shard]]; }
  const std::vector<int>& peers() const { return cluster.nodes[node]; }
  int mod_node(int x) const { return ((x % nodes) + nodes) % nodes; }
  int next_node() const { return mod_node(node + 1); }
  int prev_node() const { return mod_node(node - 1); }

  /// How many shards local rank `q` (index on this node) owns, and the place of `shard` among its owner's.
  int owned_by(int q) const { return owned_by_[q]; }
  int ordinal(int shard) const { return ordinal_[shard]; }
  /// Shards below `shard` that `q` owns.
  int owned_below(int q, int shard) const;

 private:
  std::vector<int> local_owner_, ordinal_;  // by shard
  std::vector<int> owned_by_;               // by local rank
};

/// A round, as the exchange wants it.
struct Shape {
  int blocks = 1;       // of a shard
  int area_items = 1;   // blocks of a shard and round that have a place in the window
  int area_blocks = 2;  // places that a window area has: of several rounds
  int blocks_per_put = 1;
  int lanes = 0;          // of the exchange, per owned shard
  std::vector<int> slot;  // by item of the reduce-scatter: its place in the round's part of the area; empty: the item
};

class Exchange;

/// The rank's place, and the counts that its lanes and those of its node have reached at an item.
class NodeSide : public Place {
 public:
  NodeSide(const Request& r, int rank, Shape shape_of_round, NodeStage node_stage);

  Shape shape;
  NodeStage stage;
  bool scatter, gather;  // what the collective is made of

  ChunkId chunk(int shard, int block, int i) const { return {shard, block * k + i}; }
  int lane(int shard, int which) const { return kFirstShardLane + shape.lanes * ordinal(shard) + which; }

  /// The slot of place `at` in a shard's area.
  Linear slot(int at, int i) const { return linear(int64_t{shape.area_items} * k, int64_t{at} * k + i); }
  int place_of_item(int t) const { return shape.slot.empty() ? t : shape.slot[t]; }
  Ref mine(int shard, int at, int i) const { return window(me, shard, slot(at, i)); }
  /// The chunks of `blocks` places from `at` on, as sources of a put.
  std::vector<Ref> own_slots(int shard, int at, int blocks = 1) const;

  /// Stage lane of local rank q once it has handled item t; in an all-gather, where each rank stages its own shards,
  /// the shard's chunk.
  Linear staged(int q, int64_t t, int shard, int i) const;
  /// Reduce lane of the shard's owner.
  Linear reduced(int shard, int64_t t, int i) const;
  /// Spread lane of local rank q.
  Linear spread_done(int q, int64_t round, int t, int shard, int i) const;
  /// Each rank spreads its own shard first, while that is in its cache, and then those after it, so that not all read
  /// the same owner's memory at once. The shard that q comes to as number `n`.
  int spread_shard(int q, int n) const { return (q + n) % shards; }

  /// Until all local ranks have copied item t of the spread.
  void wait_for_spread(LaneBuilder& lane, int shard, int64_t round, int t, int i) const;
  /// Until the own part of the data lies in the window, complete as far as this node goes: place 0 in an all-gather.
  void wait_for_own(LaneBuilder& lane, int shard, int t, int i) const;

 private:
  int64_t staged_items(int q) const { return shards - owned_by(q); }  // of one block
  int staged_before(int q, int shard) const;
};

/// What goes on between the owners of a shard. It takes the blocks in the order of its items from the window of their
/// owner, and leaves the finished ones for the spread.
class Exchange {
 public:
  virtual ~Exchange() = default;
  virtual int scatter_block(int t) const = 0;
  virtual int gather_block(int t) const = 0;
  /// Writes the lanes of an owned shard.
  virtual void write(int shard) = 0;
  /// Waits until nobody reads the own window's place `at` of `shard` any more, as it was in `round` (which may lie
  /// before the first); for the lane that is about to write there.
  virtual void wait_until_read(LaneBuilder& lane, int shard, int64_t round, int at, int i) = 0;
  /// For the spread of any rank of the node: item t is finished, and where it lies.
  virtual void wait_until_finished(LaneBuilder& lane, int shard, int t, int i) const = 0;
  virtual Ref finished(int shard, int t, int i) const = 0;
};

struct ExchangeKind {
  Shape (*shape)(const Request&);
  std::unique_ptr<Exchange> (*make)(const NodeSide&, Program&);
};

// The parts that algorithms are made of.
extern const ExchangeKind kRing, kTree, kLog;
double ring_bytes_out_per_byte(const Request& request, int node);
double tree_bytes_out_per_byte(const Request& request, int node);
double log_bytes_out_per_byte(const Request& request, int node);
Frame frame(const Request& request, const ExchangeKind& kind);
Program program(const Request& request, int rank, const ExchangeKind& kind, NodeStage node_stage);

/// How a broadcast passes from node to node; positions count from the root's node.
struct Route {
  int from = -1;          // position; -1 at the root
  std::vector<int> to;    // positions
  LinkKind kind;          // of these links
  int closes_from = -1;   // the position that tells the root of its arrival, over
  LinkKind closing_kind;  //   a link of this kind, so that the root too hears from another node
};
Frame broadcast_frame(const Request& request);
Program broadcast(const Request& request, int rank, Route (*route)(int position, int nodes));

/// The place of an owned shard's link in the program; added when it is not there yet.
int link_to(Program& program, int tag, int peer);
int link_from(Program& program, int tag, int peer);

}  // namespace twohop::two_hop
