// two-hop: the two-hop frame with a ring over the nodes: 2 (N - 1) steps of 1/N of a shard.
//
// A round has one block per node. Blocks are taken in the order in which the ring needs them: node r starts with block
// r - shift and goes down, so that the partial results are consumed in the order in which they are made and small slot
// rings suffice on any number of nodes. The ring ends at node r with block r + 1 - shift complete; shift is 1 for
// reduce-scatter, where block r is node r's own.
//
//   ring     reduce-scatter around the nodes
//   gather   all-gather around the nodes; what arrived is sent on, and spread, from the inbox
//   credit   gives gathered slots back once all local ranks have read them
//
// Reduce-scatter and all-gather are lanes and links of their own so that a round's reduce-scatter overlaps the gather
// of the round before.
#include "collectives/plan/two_hop.hpp"

namespace twohop::two_hop {
namespace {

enum : int { kRingLane = 0, kGatherLane = 1, kCreditLane = 2, kLanes = 3 };

class Ring final : public Exchange {
 public:
  Ring(const NodeSide& place, Program& program)
      : p_(place),
        program_(program),
        shift_(p_.request.collective == Collective::kReduceScatter ? 1 : 0),
        all_reduce_(p_.scatter && p_.gather) {}

  int scatter_block(int t) const override { return p_.mod_node(p_.node - t - shift_); }
  /// The gather starts with the block that is complete here: r + 1 after a ring, r itself in an all-gather.
  int gather_block(int t) const override { return p_.mod_node(p_.node + (all_reduce_ ? 1 : 0) - t); }

  void write(int s) override {
    if (p_.scatter) ring(s);
    if (p_.gather) gather(s);
    if (p_.gather) credit(s);
  }

  void wait_until_read(LaneBuilder& lane, int s, int64_t round, int at, int i) override {
    if (at != done_place()) return lane.sent(ring_link(s), puts(round, at + 1));
    if (!p_.gather) return lane.wait(p_.me, p_.lane(s, kRingLane), completed(round, i));
    lane.sent(gather_link(s), puts(round, 1));
    p_.wait_for_spread(lane, s, round, 0, i);
  }
  void wait_until_finished(LaneBuilder& lane, int s, int t, int i) const override {
    if (t > 0)
      lane.wait(p_.owner(s), p_.lane(s, kGatherLane), puts(0, t));
    else
      wait_until_complete(lane, s, i);
  }
  Ref finished(int s, int t, int i) const override {
    const int owner = p_.owner(s);
    if (t == 0) return window(owner, s, p_.slot(done_place(), i));
    return inbox(owner, p_.owner(p_.prev_node(), s), tag(s, LinkKind::kGather), puts(0, t - 1), i);
  }

 private:
  /// Where the complete block lies from which gather and spread start.
  int done_place() const { return p_.shape.area_items - 1; }
  /// Ring lane: signals the chunks of the block that it completes.
  Linear completed(int64_t round, int i) const { return linear(p_.k, round * p_.k + i + 1); }
  /// `count` puts of a ring or gather link after `round` whole rounds.
  Linear puts(int64_t round, int64_t count) const { return linear(p_.nodes - 1, round * (p_.nodes - 1) + count); }

  void wait_until_complete(LaneBuilder& lane, int s, int i) const {
    if (p_.scatter)
      lane.wait(p_.owner(s), p_.lane(s, kRingLane), completed(0, i));
    else
      p_.wait_for_own(lane, s, 0, i);
  }

  void ring(int s) {
    LaneBuilder lane(program_, p_.lane(s, kRingLane));
    const int in = link_from(program_, tag(s, LinkKind::kScatter), prev(s)), out = ring_link(s);
    for (int t = 0; t < p_.nodes; ++t) {
      const bool last = t == p_.nodes - 1;
      if (t > 0) lane.arrive(in, puts(0, t));
      for (int i = 0; i < p_.k; ++i) {
        lane.wait(p_.me, kReduce, p_.reduced(s, t, i));
        if (t > 0) fold_arrived(lane, s, t, i, last);
        if (last) lane.signal();
      }
      if (t > 0) lane.release(in, puts(0, t - 1));
      if (!last) lane.put(p_.chunk(s, scatter_block(t), 0), out, puts(0, t), p_.own_slots(s, t));
    }
  }
  void fold_arrived(LaneBuilder& lane, int s, int t, int i, bool last) {
    const Ref mine = p_.mine(s, t, i);
    const Ref theirs = inbox(p_.me, prev(s), tag(s, LinkKind::kScatter), puts(0, t - 1), i);
    // What arrived comes from the nodes before this one; the operand that holds the lowest rank goes left.
    const bool mine_first = p_.node == 0;
    const bool to_output = last && !p_.gather && s == p_.local;
    lane.reduce(p_.chunk(s, scatter_block(t), i), to_output ? output(p_.me) : mine,
                mine_first ? std::vector<Ref>{mine, theirs} : std::vector<Ref>{theirs, mine}, last);
  }

  void gather(int s) {
    LaneBuilder lane(program_, p_.lane(s, kGatherLane));
    const int in = link_from(program_, tag(s, LinkKind::kGather), prev(s)), out = gather_link(s);
    wait_until_complete(lane, s, p_.k - 1);
    lane.put(p_.chunk(s, gather_block(0), 0), out, puts(0, 0), p_.own_slots(s, done_place()));
    for (int t = 1; t < p_.nodes; ++t) {
      lane.arrive(in, puts(0, t));
      lane.signal();
      if (t == p_.nodes - 1) break;
      std::vector<Ref> srcs;
      for (int i = 0; i < p_.k; ++i) srcs.push_back(finished(s, t, i));
      lane.put(p_.chunk(s, gather_block(t), 0), out, puts(0, t), std::move(srcs));
    }
  }

  void credit(int s) {
    LaneBuilder lane(program_, p_.lane(s, kCreditLane));
    const int in = link_from(program_, tag(s, LinkKind::kGather), prev(s)), out = gather_link(s);
    for (int t = 1; t < p_.nodes; ++t) {
      p_.wait_for_spread(lane, s, 0, t, p_.k - 1);
      if (t < p_.nodes - 1) lane.sent(out, puts(0, t + 1));
      lane.release(in, puts(0, t - 1));
    }
  }

  int prev(int s) const { return p_.owner(p_.prev_node(), s); }
  int ring_link(int s) { return link_to(program_, tag(s, LinkKind::kScatter), p_.owner(p_.next_node(), s)); }
  int gather_link(int s) { return link_to(program_, tag(s, LinkKind::kGather), p_.owner(p_.next_node(), s)); }

  const NodeSide& p_;
  Program& program_;
  int shift_;
  bool all_reduce_;
};

Shape shape(const Request& r) {
  Shape s;
  s.blocks = r.cluster->nnodes();
  s.area_items = r.collective == Collective::kAllGather ? 1 : s.blocks;
  s.area_blocks = r.depths.blocks;
  s.lanes = kLanes;
  return s;
}

/// A chain from the root's node on; the last node closes the ring.
Route chain(int position, int nodes) {
  Route r;
  r.from = position - 1;
  if (position + 1 < nodes) r.to = {position + 1};
  r.kind = r.closing_kind = LinkKind::kGather;
  r.closes_from = nodes - 1;
  return r;
}

bool supports(const Cluster&, Collective) {
  return true;
}
Frame make_frame(const Request& r) {
  return r.collective == Collective::kBroadcast ? broadcast_frame(r) : frame(r, kRing);
}
Program make_program(const Request& r, int rank) {
  if (r.collective == Collective::kBroadcast) return broadcast(r, rank, chain);
  return program(r, rank, kRing, NodeStage::kDirect);
}

}  // namespace

const ExchangeKind kRing{shape, [](const NodeSide& place, Program& program) -> std::unique_ptr<Exchange> {
                           return std::make_unique<Ring>(place, program);
                         }};

double ring_bytes_out_per_byte(const Request& r, int node) {
  const Cluster& c = *r.cluster;
  const int n = c.nnodes();
  if (n < 2) return 0;
  switch (r.collective) {
    case Collective::kAllReduce:
      return 2 * (n - 1.0) / n;
    case Collective::kBroadcast:
      return (node + 1) % n == c.node_of[r.root] ? 0 : 1;
    case Collective::kReduceScatter:  // all blocks but the own one pass
      return 1 - static_cast<double>(c.local_size(node)) / c.nranks();
    case Collective::kAllGather:  // all but the next node's
      return 1 - static_cast<double>(c.local_size((node + 1) % n)) / c.nranks();
  }
  return 0;
}

extern const Algorithm kTwoHop;
const Algorithm kTwoHop{"two-hop", supports, make_frame, make_program, ring_bytes_out_per_byte, false, true};

}  // namespace twohop::two_hop
