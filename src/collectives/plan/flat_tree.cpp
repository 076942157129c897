// flat-tree: a double binary tree (double_tree.hpp) over all ranks in node order, without regard to nodes. What two-hop
// is compared with. A round has two blocks; block b goes up tree b and comes down finished. Lanes, per tree:
//
//   up       folds the own contribution and what the children have folded into area 0
//   down     takes the finished block from the parent: from its window or inbox on the same node, else from the own
//            inbox. A block from the same node is kept in area 1 for the children.
//   credit   gives an inbox slot back once it is read and sent on
#include <algorithm>

#include "collectives/plan/algorithm.hpp"
#include "collectives/plan/builder.hpp"
#include "collectives/plan/double_tree.hpp"

namespace twohop::flat_tree {
namespace {

constexpr int kTrees = 2;
enum : int { kUp = 0, kDown = 1, kCredit = 2, kLanesPerTree = 3 };
enum Area : int { kPartials = 0, kFinished = 1 };
constexpr int kTag = 0x6100;

constexpr int lane_of(int tree, int which) {
  return tree * kLanesPerTree + which;
}
constexpr int tag(int tree, int which) {
  return kTag + 2 * tree + which;
}

/// A rank's place in one tree; ranks instead of positions.
struct Node {
  int parent = -1;
  std::vector<int> children, lowest;  // lowest rank below each child
};

std::vector<int> in_node_order(const Cluster& c) {
  std::vector<int> ranks;
  for (const auto& node : c.nodes) ranks.insert(ranks.end(), node.begin(), node.end());
  return ranks;
}

Node place_in(int tree, const std::vector<int>& order, int rank) {
  const DoubleTree trees(static_cast<int>(order.size()));
  const int position = static_cast<int>(std::find(order.begin(), order.end(), rank) - order.begin());
  const int parent = trees.parent(tree, position);
  Node n;
  if (parent >= 0) n.parent = order[parent];
  for (int child : trees.children(tree, position)) {
    n.children.push_back(order[child]);
    n.lowest.push_back(trees.lowest(tree, child, [&](int p) { return order[p]; }));
  }
  return n;
}

class Writer {
 public:
  Writer(const Request& r, int rank)
      : cluster_(*r.cluster), k_(r.depths.chunks_per_put), blocks_(r.depths.blocks), me_(rank) {
    const std::vector<int> order = in_node_order(cluster_);
    for (int b = 0; b < kTrees; ++b) {
      nodes_[b] = place_in(b, order, rank);
      if (!is_root(b)) parents_parent_[b] = place_in(b, order, nodes_[b].parent).parent;
    }
  }

  Program write() {
    for (int b = 0; b < kTrees; ++b) {
      up(b);
      down(b);
      if (from_inbox(b)) credit(b);
    }
    return std::move(program_);
  }

 private:
  bool local(int rank) const { return cluster_.node_of[rank] == cluster_.node_of[me_]; }
  bool is_root(int b) const { return nodes_[b].parent < 0; }
  bool from_inbox(int b) const { return !is_root(b) && !local(nodes_[b].parent); }
  bool keeps(int b) const { return !is_root(b) && !from_inbox(b) && !nodes_[b].children.empty(); }
  static ChunkId chunk(int k, int b, int i) { return {0, b * k + i}; }
  ChunkId chunk(int b, int i) const { return chunk(k_, b, i); }
  Linear slot(int b, int i) const { return linear(int64_t{kTrees} * k_, int64_t{b} * k_ + i); }
  Linear done(int64_t round, int i) const { return linear(k_, round * k_ + i + 1); }
  static Linear puts(int64_t round, int64_t n) { return linear(1, round + n); }
  int out(int b, int which, int peer) { return link(program_.out, tag(b, which), peer); }
  int in(int b, int which, int peer) { return link(program_.in, tag(b, which), peer); }
  static int link(std::vector<LinkEnd>& ends, int tag, int peer) {
    const LinkEnd end{static_cast<uint16_t>(tag), peer};
    const auto found = std::find(ends.begin(), ends.end(), end);
    return found != ends.end() ? static_cast<int>(found - ends.begin()) : add_link(ends, tag, peer);
  }

  // ---- Up ----
  void up(int b) {
    LaneBuilder lane(program_, lane_of(b, kUp));
    for (int child : nodes_[b].children)
      if (!local(child)) lane.arrive(in(b, kUp, child), puts(0, 1));
    for (int i = 0; i < k_; ++i) {
      std::vector<Ref> srcs = operands(lane, b, i);
      const auto [round, item] = split(int64_t{b} - blocks_, kTrees);
      wait_until_partial_is_read(lane, round, static_cast<int>(item), i);
      lane.reduce(chunk(b, i), window(me_, kPartials, slot(b, i)), std::move(srcs), is_root(b));
      lane.signal();
    }
    for (int child : nodes_[b].children)
      if (!local(child)) lane.release(in(b, kUp, child), puts(0, 0));
    if (from_inbox(b)) send(lane, b, kUp, nodes_[b].parent, kPartials);
  }
  std::vector<Ref> operands(LaneBuilder& lane, int b, int i) {
    std::vector<std::pair<int, Ref>> by_lowest{{me_, input(me_)}};
    for (size_t c = 0; c < nodes_[b].children.size(); ++c) {
      const int child = nodes_[b].children[c];
      if (local(child)) lane.wait(child, lane_of(b, kUp), done(0, i));
      by_lowest.emplace_back(nodes_[b].lowest[c], local(child) ? window(child, kPartials, slot(b, i))
                                                               : inbox(me_, child, tag(b, kUp), puts(0, 0), i));
    }
    std::sort(by_lowest.begin(), by_lowest.end(), [](const auto& x, const auto& y) { return x.first < y.first; });
    std::vector<Ref> refs;
    for (auto& [lowest, ref] : by_lowest) refs.push_back(ref);
    return refs;
  }
  void wait_until_partial_is_read(LaneBuilder& lane, int64_t round, int b, int i) {
    if (from_inbox(b)) return lane.sent(out(b, kUp, nodes_[b].parent), puts(round, 1));
    if (!is_root(b)) return lane.wait(nodes_[b].parent, lane_of(b, kUp), done(round, i));
    wait_for_own_down(lane, b, round, i);
    wait_for_children(lane, b, round, i);
  }
  void wait_for_own_down(LaneBuilder& lane, int b, int64_t round, int i) {
    const auto& children = nodes_[b].children;  // one on this node has waited for this rank's down lane itself
    if (std::none_of(children.begin(), children.end(), [&](int child) { return local(child); }))
      lane.wait(me_, lane_of(b, kDown), done(round, i));
  }
  void wait_for_children(LaneBuilder& lane, int b, int64_t round, int i) {
    for (int child : nodes_[b].children)
      if (local(child))
        lane.wait(child, lane_of(b, kDown), done(round, i));
      else
        lane.sent(out(b, kDown, child), puts(round, 1));
  }

  // ---- Down ----
  void down(int b) {
    LaneBuilder lane(program_, lane_of(b, kDown));
    if (from_inbox(b)) {
      lane.wait(me_, lane_of(b, kUp), done(0, k_ - 1));  // in place: it has read what the output overwrites
      lane.arrive(in(b, kDown, nodes_[b].parent), puts(0, 1));
    } else if (is_root(b)) {
      lane.wait(me_, lane_of(b, kUp), done(0, k_ - 1));
    }
    if (!keeps(b)) send_to_children(lane, b);
    for (int i = 0; i < k_; ++i) take(lane, b, i);
    if (keeps(b)) send_to_children(lane, b);
  }
  void take(LaneBuilder& lane, int b, int i) {
    Ref src = finished(me_, nodes_[b].parent, b, i);
    if (!is_root(b) && !from_inbox(b)) {
      lane.wait(nodes_[b].parent, lane_of(b, kDown), done(0, i));
      src = finished(nodes_[b].parent, parents_parent_[b], b, i);
    }
    if (keeps(b)) {
      const auto [round, item] = last_kept(b);
      wait_for_children(lane, static_cast<int>(item), round, i);
      lane.copy(chunk(b, i), window(me_, kFinished, slot(b, i)), src);
      src = window(me_, kFinished, slot(b, i));
    }
    lane.copy(chunk(b, i), output(me_), src);
    lane.signal();
  }
  /// The item that used this item's slot of area 1 last: trees may share slots, and only some of a rank's use any.
  ItemOfRound last_kept(int b) const {
    for (int64_t t = int64_t{b} - blocks_;; t -= blocks_)
      if (const ItemOfRound at = split(t, kTrees); keeps(static_cast<int>(at.item))) return at;
  }
  /// Where a rank of this node that has children, or the root, or a parent elsewhere, has the finished chunk.
  Ref finished(int rank, int parent, int b, int i) const {
    if (parent < 0) return window(rank, kPartials, slot(b, i));
    if (!local(parent)) return inbox(rank, parent, tag(b, kDown), puts(0, 0), i);
    return window(rank, kFinished, slot(b, i));
  }
  void send_to_children(LaneBuilder& lane, int b) {
    for (int child : nodes_[b].children)
      if (!local(child)) send(lane, b, kDown, child, kFinished);
  }
  void send(LaneBuilder& lane, int b, int which, int to, Area area) {
    std::vector<Ref> srcs;
    for (int i = 0; i < k_; ++i)
      srcs.push_back(area == kPartials ? window(me_, kPartials, slot(b, i)) : finished(me_, nodes_[b].parent, b, i));
    lane.put(chunk(b, 0), out(b, which, to), puts(0, 0), std::move(srcs));
  }

  void credit(int b) {
    LaneBuilder lane(program_, lane_of(b, kCredit));
    wait_for_own_down(lane, b, 0, k_ - 1);
    wait_for_children(lane, b, 0, k_ - 1);
    lane.release(in(b, kDown, nodes_[b].parent), puts(0, 0));
  }

  const Cluster& cluster_;
  int k_, blocks_, me_;
  Node nodes_[kTrees];
  int parents_parent_[kTrees] = {-1, -1};
  Program program_;
};

bool supports(const Cluster&, Collective c) {
  return c == Collective::kAllReduce;
}

Frame frame(const Request& r) {
  Frame f;
  f.collective = r.collective;
  f.chunks_per_block = f.chunks_per_put = r.depths.chunks_per_put;
  f.chunks = kTrees * r.depths.chunks_per_put;
  f.areas = 2;
  f.slots = r.depths.blocks * r.depths.chunks_per_put;
  f.put_slots = r.depths.put_slots;
  return f;
}

Program program(const Request& r, int rank) {
  return Writer(r, rank).write();
}

double bytes_out_per_byte(const Request& r, int node) {
  const Cluster& c = *r.cluster;
  const std::vector<int> order = in_node_order(c);
  int halves = 0;
  for (int rank : c.nodes[node])
    for (int b = 0; b < kTrees; ++b) {
      const Node n = place_in(b, order, rank);
      halves += n.parent >= 0 && c.node_of[n.parent] != node;
      for (int child : n.children) halves += c.node_of[child] != node;
    }
  return halves / 2.0;
}

}  // namespace

extern const Algorithm kAlgorithm;
const Algorithm kAlgorithm{"flat-tree", supports, frame, program, bytes_out_per_byte, true};

}  // namespace twohop::flat_tree
