// Two-hop broadcast: the root stages all shards in its window; their owners on the root's node send them to other
// nodes along a route, a chain or a tree; every node spreads what its owners receive. One node tells the root by an
// empty put, so that the root too hears from another node and calls that do not match are noticed.
//
//   stage    root: copies its data into its window
//   reduce   other owners on the root's node: copy the root's chunks into their own window, to send them from there
//   spread   as in two_hop.hpp
//   pass     per owned shard: receives and sends on
//   credit   per owned shard: gives what was received back once all local ranks have read it
#include "collectives/plan/two_hop.hpp"

namespace twohop::two_hop {
namespace {

enum : int { kPassLane = 0, kCreditLane = 1, kLanes = 2 };

class Writer {
 public:
  Writer(const Request& r, int rank, Route (*route)(int, int))
      : p_(r, rank),
        root_(r.root),
        root_node_(p_.cluster.node_of[root_]),
        position_(p_.mod_node(p_.node - root_node_)) {
    if (p_.nodes > 1) route_ = route(position_, p_.nodes);
  }

  Program write() {
    if (p_.me == root_ && p_.cluster.nranks() > 1) stage();
    if (at_root() && p_.nodes > 1) hand_over();
    spread();
    for (int s : p_.owned) {
      if (p_.nodes == 1) continue;
      pass(s);
      credit(s);
    }
    program_.lanes.resize(kFirstShardLane + kLanes * p_.owned.size());
    return std::move(program_);
  }

 private:
  bool at_root() const { return position_ == 0; }
  bool closes() const { return position_ == route_.closes_from; }
  int lane(int s, int which) const { return kFirstShardLane + kLanes * p_.ordinal(s) + which; }
  Linear slot(int64_t i) const { return linear(p_.k, i); }
  Linear puts(int64_t count) const { return linear(1, count); }
  Linear staged(int64_t round, int s, int i) const {
    const int64_t n = int64_t{p_.shards} * p_.k;
    return linear(n, round * n + s * p_.k + i + 1);
  }
  /// Reduce lane of an owner on the root's node: has copied the root's chunk into its own area.
  Linear handed_over(int64_t round, int s, int i) const {
    const int64_t n = int64_t{p_.owned_by(p_.local_owner(s))} * p_.k;
    return linear(n, round * n + p_.ordinal(s) * p_.k + i + 1);
  }
  Linear spread_done(int64_t round, int s, int i) const { return staged(round, s, i); }
  bool needs_hand_over(int s) const { return p_.nodes > 1 && p_.owner(s) != root_; }

  // ---- Links ----
  int owner_at(int position, int s) const { return p_.owner(p_.mod_node(root_node_ + position), s); }
  int link_in(int s) {
    return at_root() ? link_from(program_, tag(s, route_.closing_kind), owner_at(route_.closes_from, s))
                     : link_from(program_, tag(s, route_.kind), owner_at(route_.from, s));
  }
  int link_out(int s, int to) { return link_to(program_, tag(s, route_.kind), owner_at(to, s)); }
  void wait_until_sent(LaneBuilder& lane, int s, Linear count) {
    for (int to : route_.to) lane.sent(link_out(s, to), count);
  }

  void stage() {
    LaneBuilder lane(program_, kStage);
    for (int s = 0; s < p_.shards; ++s)
      for (int i = 0; i < p_.k; ++i) {
        for (int rank : p_.peers())
          if (rank != root_) lane.wait(rank, kSpread, spread_done(-p_.request.depths.blocks, s, i));
        if (needs_hand_over(s))
          lane.wait(p_.owner(s), kReduce, handed_over(-p_.request.depths.blocks, s, i));
        else if (p_.nodes > 1)
          wait_until_sent(lane, s, puts(1 - p_.request.depths.blocks));
        lane.copy({s, i}, window(root_, s, slot(i)), input(root_));
        lane.signal();
      }
  }

  void hand_over() {
    LaneBuilder lane(program_, kReduce);
    for (int s : p_.owned) {
      if (!needs_hand_over(s)) continue;
      for (int i = 0; i < p_.k; ++i) {
        wait_until_sent(lane, s, puts(1 - p_.request.depths.blocks));
        lane.wait(root_, kStage, staged(0, s, i));
        lane.copy({s, i}, window(p_.me, s, slot(i)), window(root_, s, slot(i)));
        lane.signal();
      }
    }
  }

  void pass(int s) {
    LaneBuilder lane(program_, this->lane(s, kPassLane));
    if (!at_root()) {
      lane.arrive(link_in(s), puts(1));
      lane.signal();
    } else if (p_.me == root_) {
      lane.wait(root_, kStage, staged(0, s, p_.k - 1));
    } else {
      lane.wait(p_.me, kReduce, handed_over(0, s, p_.k - 1));
    }
    for (int to : route_.to) {
      std::vector<Ref> srcs;
      for (int i = 0; i < p_.k; ++i) srcs.push_back(at_root() ? window(p_.me, s, slot(i)) : received(p_.me, s, i));
      lane.put({s, 0}, link_out(s, to), puts(0), std::move(srcs));
    }
    if (closes()) lane.put({s, 0}, link_to(program_, tag(s, route_.closing_kind), owner_at(0, s)), puts(0), {});
  }

  void credit(int s) {
    LaneBuilder lane(program_, this->lane(s, kCreditLane));
    if (at_root()) {
      lane.arrive(link_in(s), puts(1));
    } else {
      for (int rank : p_.peers()) lane.wait(rank, kSpread, spread_done(0, s, p_.k - 1));
      wait_until_sent(lane, s, puts(1));
    }
    lane.release(link_in(s), puts(0));
  }

  void spread() {
    LaneBuilder lane(program_, kSpread);
    for (int s = 0; s < p_.shards; ++s) {
      if (!at_root()) lane.wait(p_.owner(s), this->lane(s, kPassLane), linear(1, 1));
      for (int i = 0; i < p_.k; ++i) {
        if (at_root() && p_.cluster.nranks() > 1) lane.wait(root_, kStage, staged(0, s, i));
        lane.copy({s, i}, output(p_.me), source(s, i));
        lane.signal();
      }
    }
  }
  Ref source(int s, int i) const {
    if (!at_root()) return received(p_.owner(s), s, i);
    return p_.me == root_ ? input(root_) : window(root_, s, slot(i));
  }
  Ref received(int owner, int s, int i) const {
    return inbox(owner, owner_at(route_.from, s), tag(s, route_.kind), puts(0), i);
  }

  Place p_;
  int root_, root_node_, position_;
  Route route_;
  Program program_;
};

}  // namespace

Frame broadcast_frame(const Request& r) {
  Frame f;
  f.collective = r.collective;
  f.root = r.root;
  f.shards = r.cluster->max_local_size();
  f.chunks = f.chunks_per_block = f.chunks_per_put = r.depths.chunks_per_put;
  f.areas = f.shards;
  f.slots = r.depths.blocks * r.depths.chunks_per_put;
  f.put_slots = r.depths.put_slots;
  return f;
}

Program broadcast(const Request& request, int rank, Route (*route)(int position, int nodes)) {
  return Writer(request, rank, route).write();
}

}  // namespace twohop::two_hop
