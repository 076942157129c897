// Two-hop all-reduce, reduce-scatter and all-gather: lanes over shards, a ring between nodes (see two_hop.hpp).
//
// A round has one block of k chunks per shard and node. Blocks are taken in the order in which the ring needs them:
// node r starts with block r - shift and goes down, so that the partial results are consumed in the order in which they
// are made and small slot rings suffice on any number of nodes. The ring ends at node r with block r + 1 - shift
// complete; shift is 1 for reduce-scatter, where block r is node r's own.
#include "collectives/plan/two_hop.hpp"

#include <algorithm>

namespace twohop::two_hop {
namespace {

/// Writes the program of one rank.
class Writer {
 public:
  explicit Writer(const Request& r, int rank)
      : p_(r, rank),
        scatter_(r.collective != Collective::kAllGather),
        gather_(r.collective != Collective::kReduceScatter),
        shift_(r.collective == Collective::kReduceScatter ? 1 : 0),
        all_reduce_(scatter_ && gather_) {}

  Program write() {
    stage();
    reduce();
    spread();
    if (p_.nodes > 1) {
      for (int s : p_.owned) {
        if (scatter_) ring(s);
        if (gather_) gather(s);
        if (gather_) credit(s);
      }
    }
    program_.lanes.resize(kFirstShardLane + 3 * p_.owned.size());
    return std::move(program_);
  }

 private:
  // ---- Blocks: which one is handled at item t of a round ----
  int scatter_items() const { return p_.nodes; }
  int scatter_block(int t) const { return p_.mod_node(p_.node - t - shift_); }
  /// The gather starts with the block that is complete here: r + 1 after a ring, r itself in an all-gather.
  int gather_block(int t) const { return p_.mod_node(p_.node + (all_reduce_ ? 1 : 0) - t); }
  ChunkId chunk(int shard, int block, int i) const { return {shard, block * p_.k + i}; }

  // ---- Slots of a shard's area: one per chunk of the scatter's items, or of the one own block in an all-gather ----
  int area_items() const { return scatter_ ? scatter_items() : 1; }
  Linear slot(int t, int i) const { return linear(int64_t{area_items()} * p_.k, int64_t{t} * p_.k + i); }
  /// The slot where the complete block lies from which the gather and the spread start.
  Linear done_slot(int i) const { return slot(area_items() - 1, i); }

  // ---- Counter positions (value once the item is signalled) ----
  /// Stage lane of local rank q for scatter item t, or, in an all-gather, for its own shards.
  Linear staged(int q, int t, int shard, int i) const {
    if (!scatter_) return linear(int64_t{p_.owned_by(q)} * p_.k, int64_t{p_.ordinal(shard)} * p_.k + i + 1);
    const int foreign = p_.shards - p_.owned_by(q);
    const int order = shard - (shard + p_.group - 1 - q) / p_.group;  // shards below it that q does not own
    return linear(int64_t{scatter_items()} * foreign * p_.k, (int64_t{t} * foreign + order) * p_.k + i + 1);
  }
  /// Reduce lane of the shard's owner.
  Linear reduced(int shard, int64_t t, int i) const {
    const int64_t n = p_.owned_by(shard % p_.group);
    return at_item(t, scatter_items(), scatter_items() * n * p_.k,
                   [&](int64_t u) { return (u * n + p_.ordinal(shard)) * p_.k + i + 1; });
  }
  /// Ring lane of the shard's owner: signals the chunks of the block that it completes.
  Linear completed(int64_t round, int i) const { return linear(p_.k, round * p_.k + i + 1); }
  /// Spread lane of any local rank: item t of the gather.
  Linear spread_done(int64_t round, int t, int shard, int i) const {
    const int64_t per_round = int64_t{p_.nodes} * p_.shards * p_.k;
    return linear(per_round, round * per_round + (int64_t{t} * p_.shards + shard) * p_.k + i + 1);
  }
  /// `count` puts of a ring or gather link after `round` whole rounds.
  Linear puts(int64_t round, int64_t count) const { return linear(p_.nodes - 1, round * (p_.nodes - 1) + count); }

  // ---- Lanes ----
  void stage() {
    LaneBuilder lane(program_, kStage);
    if (!scatter_) return stage_own(lane);
    for (int t = 0; t < scatter_items(); ++t)
      for (int s = 0; s < p_.shards; ++s) {
        if (p_.owner(s) == p_.me) continue;
        for (int i = 0; i < p_.k; ++i) {
          lane.wait(p_.owner(s), kReduce, reduced(s, t - p_.blocks, i));  // it has read the slot's last use
          lane.copy(chunk(s, scatter_block(t), i), window(p_.me, s, slot(t, i)), input(p_.me));
          lane.signal();
        }
      }
  }
  void stage_own(LaneBuilder& lane) {
    for (int s : p_.owned)
      for (int i = 0; i < p_.k; ++i) {
        wait_until_read(lane, s, 0, i);
        lane.copy(chunk(s, p_.node, i), window(p_.me, s, slot(0, i)), input(p_.me));
        lane.signal();
      }
  }

  void reduce() {
    LaneBuilder lane(program_, kReduce);
    if (!scatter_) return;
    for (int t = 0; t < scatter_items(); ++t)
      for (int s : p_.owned)
        for (int i = 0; i < p_.k; ++i) reduce_chunk(lane, s, t, i);
  }
  void reduce_chunk(LaneBuilder& lane, int s, int t, int i) {
    std::vector<Ref> srcs;
    for (int q = 0; q < p_.group; ++q) {
      const int rank = p_.peers()[q];
      if (rank == p_.me) {
        srcs.push_back(input(p_.me));
        continue;
      }
      lane.wait(rank, kStage, staged(q, t, s, i));
      srcs.push_back(window(rank, s, slot(t, i), rank));
    }
    const bool final = p_.nodes == 1;
    Ref dst = window(p_.me, s, slot(t, i));
    if (final && !gather_ && s == p_.local)
      dst = output(p_.me);
    else
      wait_until_read(lane, s, t, i);
    lane.reduce(chunk(s, scatter_block(t), i), dst, std::move(srcs), final);
    lane.signal();
  }

  /// Waits until nobody reads what slot (t, i) of this rank's area of shard s held before.
  void wait_until_read(LaneBuilder& lane, int s, int t, int i) {
    const int items = area_items();
    const auto [round, item] = split(int64_t{t} - p_.blocks, items);
    const bool complete = item == items - 1;
    if (!complete) return lane.sent(ring_link(s), puts(round, item + 1));
    if (!gather_) {
      if (p_.nodes > 1) lane.wait(p_.me, p_.ring_lane(s), completed(round, i));
      return;
    }
    if (p_.nodes > 1) lane.sent(gather_link(s), puts(round, 1));
    for (int rank : p_.peers()) lane.wait(rank, kSpread, spread_done(round, 0, s, i));
  }

  void ring(int s) {
    LaneBuilder lane(program_, p_.ring_lane(s));
    const int in = add_in(ring_tag(s)), out = ring_link(s);
    for (int t = 0; t < scatter_items(); ++t) {
      const bool last = t == scatter_items() - 1;
      if (t > 0) lane.arrive(in, puts(0, t));
      for (int i = 0; i < p_.k; ++i) {
        lane.wait(p_.me, kReduce, reduced(s, t, i));
        if (t > 0) fold_arrived(lane, s, t, i, last);
        if (last) lane.signal();
      }
      if (t > 0) lane.release(in, puts(0, t - 1));
      if (!last) lane.put(chunk(s, scatter_block(t), 0), out, puts(0, t), own_slots(s, t));
    }
  }
  void fold_arrived(LaneBuilder& lane, int s, int t, int i, bool last) {
    const Ref mine = window(p_.me, s, slot(t, i));
    const Ref theirs = inbox(p_.me, ring_tag(s), puts(0, t - 1), i);
    // What arrived comes from the t nodes before this one; the operand that holds the lowest rank goes left.
    int lowest = p_.node;
    for (int d = 1; d <= t; ++d) lowest = std::min(lowest, p_.mod_node(p_.node - d));
    const bool mine_first = lowest == p_.node;
    const bool to_output = last && !gather_ && s == p_.local;
    lane.reduce(chunk(s, scatter_block(t), i), to_output ? output(p_.me) : mine,
                mine_first ? std::vector<Ref>{mine, theirs} : std::vector<Ref>{theirs, mine}, last);
  }

  void gather(int s) {
    LaneBuilder lane(program_, p_.gather_lane(s));
    const int in = add_in(gather_tag(s)), out = gather_link(s);
    if (scatter_)
      lane.wait(p_.me, p_.ring_lane(s), completed(0, p_.k - 1));
    else
      lane.wait(p_.me, kStage, staged(p_.local, 0, s, p_.k - 1));
    lane.put(chunk(s, gather_block(0), 0), out, puts(0, 0), own_slots(s, area_items() - 1));
    for (int t = 1; t < p_.nodes; ++t) {
      lane.arrive(in, puts(0, t));
      lane.signal();
      if (t == p_.nodes - 1) break;
      std::vector<Ref> srcs;
      for (int i = 0; i < p_.k; ++i) srcs.push_back(inbox(p_.me, gather_tag(s), puts(0, t - 1), i));
      lane.put(chunk(s, gather_block(t), 0), out, puts(0, t), std::move(srcs));
    }
  }

  void credit(int s) {
    LaneBuilder lane(program_, p_.credit_lane(s));
    const int in = find(program_.in, gather_tag(s)), out = gather_link(s);
    for (int t = 1; t < p_.nodes; ++t) {
      for (int rank : p_.peers()) lane.wait(rank, kSpread, spread_done(0, t, s, p_.k - 1));
      if (t < p_.nodes - 1) lane.sent(out, puts(0, t + 1));
      lane.release(in, puts(0, t - 1));
    }
  }

  void spread() {
    LaneBuilder lane(program_, kSpread);
    if (!gather_) return;
    for (int t = 0; t < p_.nodes; ++t)
      for (int s = 0; s < p_.shards; ++s) {
        const int owner = p_.owner(s);
        if (t > 0) lane.wait(owner, p_.gather_lane(s), linear(p_.nodes - 1, t));
        for (int i = 0; i < p_.k; ++i) {
          if (t == 0) wait_for_complete(lane, s, i);
          const Ref src = t == 0 ? window(owner, s, done_slot(i)) : inbox(owner, gather_tag(s), puts(0, t - 1), i);
          lane.copy(chunk(s, gather_block(t), i), output(p_.me), src);
          lane.signal();
        }
      }
  }
  void wait_for_complete(LaneBuilder& lane, int s, int i) {
    const int owner = p_.owner(s);
    if (!scatter_)
      lane.wait(owner, kStage, staged(p_.cluster.local_of[owner], 0, s, i));
    else if (p_.nodes == 1)
      lane.wait(owner, kReduce, reduced(s, 0, i));
    else
      lane.wait(owner, p_.ring_lane(s), completed(0, i));
  }

  // ---- Links ----
  std::vector<Ref> own_slots(int s, int t) const {
    std::vector<Ref> refs;
    for (int i = 0; i < p_.k; ++i) refs.push_back(window(p_.me, s, slot(t, i)));
    return refs;
  }
  static int find(const std::vector<LinkEnd>& ends, int tag) {
    for (size_t i = 0; i < ends.size(); ++i)
      if (ends[i].tag == tag) return static_cast<int>(i);
    return -1;
  }
  int out_link(int s, int tag) {
    const int found = find(program_.out, tag);
    return found >= 0 ? found : add_link(program_.out, tag, p_.owner(p_.next_node(), s));
  }
  int ring_link(int s) { return out_link(s, ring_tag(s)); }
  int gather_link(int s) { return out_link(s, gather_tag(s)); }
  int add_in(int tag) { return add_link(program_.in, tag, p_.owner(p_.prev_node(), tag / 2)); }

  Place p_;
  bool scatter_, gather_;
  int shift_;
  bool all_reduce_;
  Program program_;
};

bool supports(const Cluster&, Collective) {
  return true;
}

Frame frame(const Request& r) {
  Frame f;
  f.collective = r.collective;
  f.root = r.root;
  f.shards = r.cluster->max_local_size();
  f.chunks_per_put = r.depths.chunks_per_put;
  f.chunks = f.chunks_per_put * (r.collective == Collective::kBroadcast ? 1 : r.cluster->nnodes());
  f.areas = f.shards;
  f.slots = r.depths.blocks * r.depths.chunks_per_put;
  f.put_slots = r.depths.put_slots;
  return f;
}

Program program(const Request& r, int rank) {
  if (r.collective == Collective::kBroadcast) return broadcast(r, rank);
  return Writer(r, rank).write();
}

double bytes_out_per_byte(const Cluster& c, Collective collective) {
  const double n = c.nnodes();
  if (n < 2) return 0;
  switch (collective) {
    case Collective::kAllReduce:
      return 2 * (n - 1) / n;
    case Collective::kBroadcast:
      return 1;
    default: {  // blocks are the ranks': the busiest node passes on all but those of its smallest neighbour
      const auto smallest = std::min_element(c.nodes.begin(), c.nodes.end(),
                                             [](const auto& a, const auto& b) { return a.size() < b.size(); });
      return 1 - static_cast<double>(smallest->size()) / c.nranks();
    }
  }
}

}  // namespace

extern const Algorithm kAlgorithm;
const Algorithm kAlgorithm{"two-hop", supports, frame, program, bytes_out_per_byte};

}  // namespace twohop::two_hop
