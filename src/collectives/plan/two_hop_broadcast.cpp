// Two-hop broadcast: the root stages all shards in its window; their owners on the root's node send them down a chain
// of nodes; every node spreads what its owners receive. The last node closes the ring with an empty put, so that the
// root too hears from another node and calls that do not match are noticed. Lanes and links are those of two_hop.hpp;
// gather links form the chain.
#include "collectives/plan/two_hop.hpp"

namespace twohop::two_hop {
namespace {

class Writer {
 public:
  Writer(const Request& r, int rank)
      : p_(r, rank),
        root_(r.root),
        root_node_(p_.cluster.node_of[root_]),
        depth_(p_.mod_node(p_.node - root_node_)),
        last_(depth_ == p_.nodes - 1) {}

  Program write() {
    if (p_.me == root_ && p_.cluster.nranks() > 1) stage();
    for (int s : p_.owned) links(s);
    if (depth_ == 0) hand_over();
    spread();
    for (int s : p_.owned) {
      if (p_.nodes == 1) continue;
      chain(s);
      credit(s);
    }
    program_.lanes.resize(kFirstShardLane + 3 * p_.owned.size());
    return std::move(program_);
  }

 private:
  ChunkId chunk(int s, int i) const { return {s, i}; }
  Linear slot(int64_t i) const { return linear(p_.k, i); }
  Linear puts(int64_t count) const { return linear(1, count); }
  Linear staged(int64_t round, int s, int i) const {
    const int64_t n = int64_t{p_.shards} * p_.k;
    return linear(n, round * n + s * p_.k + i + 1);
  }
  /// Reduce lane of an owner on the root's node: has copied the root's chunk into its own area.
  Linear handed_over(int64_t round, int s, int i) const {
    const int owner = p_.owner(s);
    int before = 0, all = 0;
    for (int x = 0; x < p_.shards; ++x)
      if (p_.owner(x) == owner) ++all, before += x < s;
    const int64_t n = int64_t{all} * p_.k;
    return linear(n, round * n + before * p_.k + i + 1);
  }
  Linear spread_done(int64_t round, int s, int i) const { return staged(round, s, i); }
  bool needs_hand_over(int s) const { return p_.nodes > 1 && p_.owner(s) != root_; }

  void links(int s) {
    if (p_.nodes == 1) return;
    add_link(program_.out, gather_tag(s), p_.owner(p_.next_node(), s));
    add_link(program_.in, gather_tag(s), p_.owner(p_.prev_node(), s));
  }
  int link(int s) const { return p_.ordinal(s); }  // links() added them in the order of the owned shards

  void stage() {
    LaneBuilder lane(program_, kStage);
    for (int s = 0; s < p_.shards; ++s)
      for (int i = 0; i < p_.k; ++i) {
        for (int rank : p_.peers())
          if (rank != root_) lane.wait(rank, kSpread, spread_done(-p_.blocks, s, i));
        if (needs_hand_over(s))
          lane.wait(p_.owner(s), kReduce, handed_over(-p_.blocks, s, i));
        else if (p_.nodes > 1)
          lane.sent(link(s), puts(1 - p_.blocks));
        lane.copy(chunk(s, i), window(root_, s, slot(i)), input(root_));
        lane.signal();
      }
  }

  void hand_over() {
    LaneBuilder lane(program_, kReduce);
    for (int s : p_.owned) {
      if (!needs_hand_over(s)) continue;
      for (int i = 0; i < p_.k; ++i) {
        lane.sent(link(s), puts(1 - p_.blocks));
        lane.wait(root_, kStage, staged(0, s, i));
        lane.copy(chunk(s, i), window(p_.me, s, slot(i)), window(root_, s, slot(i)));
        lane.signal();
      }
    }
  }

  void chain(int s) {
    LaneBuilder lane(program_, p_.gather_lane(s));
    std::vector<Ref> srcs;
    for (int i = 0; i < p_.k; ++i)
      srcs.push_back(depth_ == 0 ? window(p_.me, s, slot(i)) : inbox(p_.me, gather_tag(s), puts(0), i));
    if (depth_ == 0) {
      if (p_.me == root_)
        lane.wait(root_, kStage, staged(0, s, p_.k - 1));
      else
        lane.wait(p_.me, kReduce, handed_over(0, s, p_.k - 1));
    } else {
      lane.arrive(link(s), puts(1));
      lane.signal();
    }
    if (last_) srcs.clear();
    lane.put(chunk(s, 0), link(s), puts(0), std::move(srcs));
  }

  void credit(int s) {
    LaneBuilder lane(program_, p_.credit_lane(s));
    if (depth_ == 0)
      lane.arrive(link(s), puts(1));
    else
      for (int rank : p_.peers()) lane.wait(rank, kSpread, spread_done(0, s, p_.k - 1));
    if (depth_ > 0 && !last_) lane.sent(link(s), puts(1));
    lane.release(link(s), puts(0));
  }

  void spread() {
    LaneBuilder lane(program_, kSpread);
    for (int s = 0; s < p_.shards; ++s) {
      const int owner = p_.owner(s);
      if (depth_ > 0) lane.wait(owner, p_.gather_lane(s), linear(1, 1));
      for (int i = 0; i < p_.k; ++i) {
        lane.copy(chunk(s, i), output(p_.me), source(lane, owner, s, i));
        lane.signal();
      }
    }
  }
  Ref source(LaneBuilder& lane, int owner, int s, int i) const {
    if (depth_ > 0) return inbox(owner, gather_tag(s), puts(0), i);
    if (p_.cluster.nranks() > 1) lane.wait(root_, kStage, staged(0, s, i));
    return p_.me == root_ ? input(root_) : window(root_, s, slot(i));
  }

  Place p_;
  int root_, root_node_, depth_;
  bool last_;
  Program program_;
};

}  // namespace

Program broadcast(const Request& request, int rank) {
  return Writer(request, rank).write();
}

}  // namespace twohop::two_hop
