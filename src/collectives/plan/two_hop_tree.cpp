// two-hop-tree: the two-hop frame with a double binary tree over the nodes: about 2 log2 N steps, pipelined over the
// rounds, and about 2 S out of each node.
//
// A round has two blocks; block b goes up tree b (double_tree.hpp) as partial results, and comes down finished. Lanes,
// per tree:
//
//   up       folds what the children sent and sends it on; at the root the block is complete
//   down     passes the finished block on to the children, from the inbox
//   credit   gives what came down back once all local ranks have read it
#include "collectives/plan/double_tree.hpp"
#include "collectives/plan/two_hop.hpp"

namespace twohop::two_hop {
namespace {

constexpr int kTrees = 2;
enum : int { kUpLane = 0, kDownLane = 1, kCreditLane = 2, kLanesPerTree = 3 };
constexpr int kLanes = kTrees * kLanesPerTree;
static_assert(kLanes <= kMaxLanesPerShard);

LinkKind up_kind(int tree) {
  return tree == 0 ? LinkKind::kUp0 : LinkKind::kUp1;
}
LinkKind down_kind(int tree) {
  return tree == 0 ? LinkKind::kDown0 : LinkKind::kDown1;
}

class Tree final : public Exchange {
 public:
  Tree(const NodeSide& place, Program& program) : p_(place), program_(program) {
    const DoubleTree trees(p_.nodes);
    for (int b = 0; b < kTrees; ++b) {
      parent_[b] = trees.parent(b, p_.node);
      children_[b] = trees.children(b, p_.node);
      for (int child : children_[b]) lowest_[b].push_back(trees.lowest(b, child, [](int node) { return node; }));
    }
  }

  int scatter_block(int t) const override { return t; }
  int gather_block(int t) const override { return t; }

  void write(int s) override {
    for (int b = 0; b < kTrees; ++b) {
      up(s, b);
      down(s, b);
      if (!is_root(b)) credit(s, b);
    }
  }

  void wait_until_read(LaneBuilder& lane, int s, int64_t round, int b, int i) override {
    if (!is_root(b)) return lane.sent(up_link(s, b), count(round, 1));
    for (int child : children_[b]) lane.sent(down_link(s, b, child), count(round, 1));
    p_.wait_for_spread(lane, s, round, b, i);
  }
  void wait_until_finished(LaneBuilder& lane, int s, int b, int i) const override {
    if (is_root(b))
      lane.wait(p_.owner(s), lane_of(s, b, kUpLane), linear(p_.k, i + 1));
    else
      lane.wait(p_.owner(s), lane_of(s, b, kDownLane), count(0, 1));
  }
  Ref finished(int s, int b, int i) const override {
    const int owner = p_.owner(s);
    if (is_root(b)) return window(owner, s, p_.slot(b, i));
    return inbox(owner, p_.owner(parent_[b], s), tag(s, down_kind(b)), count(0, 0), i);
  }

 private:
  bool is_root(int b) const { return parent_[b] < 0; }
  int lane_of(int s, int b, int which) const { return p_.lane(s, b * kLanesPerTree + which); }
  /// One put a round and link.
  static Linear count(int64_t round, int64_t n) { return linear(1, round + n); }

  int up_link(int s, int b) { return link_to(program_, tag(s, up_kind(b)), p_.owner(parent_[b], s)); }
  int up_in(int s, int b, int child) { return link_from(program_, tag(s, up_kind(b)), p_.owner(child, s)); }
  int down_link(int s, int b, int child) { return link_to(program_, tag(s, down_kind(b)), p_.owner(child, s)); }

  void up(int s, int b) {
    LaneBuilder lane(program_, lane_of(s, b, kUpLane));
    for (int child : children_[b]) lane.arrive(up_in(s, b, child), count(0, 1));
    for (int i = 0; i < p_.k; ++i) {
      lane.wait(p_.me, kReduce, p_.reduced(s, b, i));
      if (!children_[b].empty()) lane.reduce(p_.chunk(s, b, i), p_.mine(s, b, i), operands(s, b, i), is_root(b));
      if (is_root(b)) lane.signal();
    }
    for (int child : children_[b]) lane.release(up_in(s, b, child), count(0, 0));
    if (!is_root(b)) lane.put(p_.chunk(s, b, 0), up_link(s, b), count(0, 0), p_.own_slots(s, b));
  }
  /// The own partial result and the children's, by the lowest node that each holds.
  std::vector<Ref> operands(int s, int b, int i) const {
    std::vector<std::pair<int, Ref>> by_lowest{{p_.node, p_.mine(s, b, i)}};
    for (size_t c = 0; c < children_[b].size(); ++c)
      by_lowest.emplace_back(lowest_[b][c],
                             inbox(p_.me, p_.owner(children_[b][c], s), tag(s, up_kind(b)), count(0, 0), i));
    std::sort(by_lowest.begin(), by_lowest.end(), [](const auto& x, const auto& y) { return x.first < y.first; });
    std::vector<Ref> refs;
    for (auto& [lowest, ref] : by_lowest) refs.push_back(ref);
    return refs;
  }

  void down(int s, int b) {
    LaneBuilder lane(program_, lane_of(s, b, kDownLane));
    if (is_root(b)) {
      wait_until_finished(lane, s, b, p_.k - 1);
    } else {
      // In place, the finished block overwrites what reduce and stage read. That it came back says so too, but over
      // another node.
      lane.wait(p_.me, kReduce, p_.reduced(s, b, p_.k - 1));
      lane.arrive(link_from(program_, tag(s, down_kind(b)), p_.owner(parent_[b], s)), count(0, 1));
      lane.signal();
    }
    for (int child : children_[b]) {
      std::vector<Ref> srcs;
      for (int i = 0; i < p_.k; ++i) srcs.push_back(finished(s, b, i));
      lane.put(p_.chunk(s, b, 0), down_link(s, b, child), count(0, 0), std::move(srcs));
    }
  }

  void credit(int s, int b) {
    LaneBuilder lane(program_, lane_of(s, b, kCreditLane));
    p_.wait_for_spread(lane, s, 0, b, p_.k - 1);
    for (int child : children_[b]) lane.sent(down_link(s, b, child), count(0, 1));
    lane.release(link_from(program_, tag(s, down_kind(b)), p_.owner(parent_[b], s)), count(0, 0));
  }

  const NodeSide& p_;
  Program& program_;
  int parent_[kTrees];                 // node; -1 at the root
  std::vector<int> children_[kTrees];  // nodes
  std::vector<int> lowest_[kTrees];    // by child: the lowest node of its subtree
};

Shape shape(const Request& r) {
  Shape s;
  s.blocks = s.area_items = r.cluster->nnodes() > 1 ? kTrees : 1;
  s.area_blocks = r.depths.blocks;
  s.lanes = kLanes;
  return s;
}

bool supports(const Cluster&, Collective c) {
  return c == Collective::kAllReduce;
}
Frame make_frame(const Request& r) {
  return frame(r, kTree);
}
Program make_program(const Request& r, int rank) {
  return program(r, rank, kTree, NodeStage::kDirect);
}

}  // namespace

double tree_bytes_out_per_byte(const Request& r, int node) {
  const int n = r.cluster->nnodes();
  if (n < 2) return 0;
  double halves = 0;
  const DoubleTree trees(n);
  for (int b = 0; b < kTrees; ++b)
    halves += (trees.parent(b, node) < 0 ? 0 : 1) + static_cast<double>(trees.children(b, node).size());
  return halves / 2;
}

const ExchangeKind kTree{shape, [](const NodeSide& place, Program& program) -> std::unique_ptr<Exchange> {
                           return std::make_unique<Tree>(place, program);
                         }};

extern const Algorithm kTwoHopTree;
const Algorithm kTwoHopTree{"two-hop-tree", supports, make_frame, make_program, tree_bytes_out_per_byte};

}  // namespace twohop::two_hop
