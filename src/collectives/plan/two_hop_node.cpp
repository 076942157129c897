// The lanes of the two-hop frame inside a node, of all-reduce, reduce-scatter and all-gather (see two_hop.hpp).
#include "collectives/plan/two_hop.hpp"

namespace twohop::two_hop {
namespace {

/// Writes the program of one rank.
class Writer {
 public:
  Writer(const Request& r, int rank, const ExchangeKind& kind, NodeStage node_stage)
      : p_(r, rank, kind.shape(r), node_stage), exchange_(p_.nodes > 1 ? kind.make(p_, program_) : nullptr) {}

  Program write() {
    if (!p_.scatter)
      stage_own();
    else if (p_.stage == NodeStage::kDirect)
      stage_directly();
    else
      stage_along_ring();
    if (p_.scatter) reduce();
    if (p_.gather) spread();
    if (exchange_)
      for (int s : p_.owned) exchange_->write(s);
    program_.lanes.resize(kFirstShardLane + (exchange_ ? p_.shape.lanes : 0) * p_.owned.size());
    return std::move(program_);
  }

 private:
  int scatter_block(int t) const { return exchange_ ? exchange_->scatter_block(t) : 0; }
  int gather_block(int t) const { return exchange_ ? exchange_->gather_block(t) : 0; }
  ChunkId scatter_chunk(int s, int t, int i) const { return p_.chunk(s, scatter_block(t), i); }
  Linear slot(int t, int i) const { return p_.slot(p_.place_of_item(t), i); }

  // ---- Stage ----
  void stage_directly() {
    LaneBuilder lane(program_, kStage);
    for (int t = 0; t < p_.shape.blocks; ++t)
      for (int s = 0; s < p_.shards; ++s) {
        if (p_.owner(s) == p_.me) continue;
        for (int i = 0; i < p_.k; ++i) {
          lane.wait(p_.owner(s), kReduce, p_.reduced(s, t - p_.shape.area_blocks, i));  // it has read the last use
          lane.copy(scatter_chunk(s, t, i), window(p_.me, s, slot(t, i)), input(p_.me));
          lane.signal();
        }
      }
  }
  /// A shard starts at the rank after its owner and collects contributions on its way round to the owner.
  void stage_along_ring() {
    LaneBuilder lane(program_, kStage);
    for (int t = 0; t < p_.shape.blocks; ++t)
      for (int hops = 0; hops < p_.group - 1; ++hops) {
        const int owner = (p_.local - hops - 1 + p_.group) % p_.group;
        for (int s = owner; s < p_.shards; ++s)
          for (int i = 0; i < p_.k && p_.local_owner(s) == owner; ++i) pass_on(lane, s, t, hops, i);
      }
  }
  void pass_on(LaneBuilder& lane, int s, int t, int hops, int i) {
    const int next = (p_.local + 1) % p_.group, before = t - p_.shape.area_blocks;
    if (next == p_.local_owner(s))
      lane.wait(p_.owner(s), kReduce, p_.reduced(s, before, i));
    else
      lane.wait(p_.peers()[next], kStage, p_.staged(next, before, s, i));
    const Ref mine = window(p_.me, s, slot(t, i));
    if (hops == 0)
      lane.copy(scatter_chunk(s, t, i), mine, input(p_.me));
    else
      lane.reduce(scatter_chunk(s, t, i), mine, ring_operands(lane, s, t, hops, i), false);
    lane.signal();
  }
  /// What the `hops` local ranks before this one have folded, and the own contribution.
  std::vector<Ref> ring_operands(LaneBuilder& lane, int s, int t, int hops, int i) {
    const int prev = (p_.local - 1 + p_.group) % p_.group, rank = p_.peers()[prev];
    lane.wait(rank, kStage, p_.staged(prev, t, s, i));
    const Ref theirs = window(rank, s, slot(t, i), hops == 1 ? rank : -1);
    int lowest = p_.local;
    for (int d = 1; d <= hops; ++d) lowest = std::min(lowest, (p_.local - d + p_.group) % p_.group);
    if (lowest == p_.local) return {input(p_.me), theirs};
    return {theirs, input(p_.me)};
  }
  void stage_own() {
    LaneBuilder lane(program_, kStage);
    for (int s : p_.owned)
      for (int i = 0; i < p_.k; ++i) {
        wait_until_read(lane, s, 0, i);
        lane.copy(p_.chunk(s, exchange_ ? p_.node : 0, i), window(p_.me, s, p_.slot(0, i)), input(p_.me));
        lane.signal();
      }
  }

  // ---- Reduce ----
  void reduce() {
    LaneBuilder lane(program_, kReduce);
    for (int t = 0; t < p_.shape.blocks; ++t)
      for (int s : p_.owned)
        for (int i = 0; i < p_.k; ++i) reduce_chunk(lane, s, t, i);
  }
  void reduce_chunk(LaneBuilder& lane, int s, int t, int i) {
    std::vector<Ref> srcs =
        p_.stage == NodeStage::kRing && p_.group > 1 ? ring_operands(lane, s, t, p_.group - 1, i) : all(lane, s, t, i);
    const bool final = !exchange_;
    Ref dst = window(p_.me, s, slot(t, i));
    if (final && !p_.gather && s == p_.local)
      dst = output(p_.me);
    else
      wait_until_read(lane, s, t, i);
    lane.reduce(scatter_chunk(s, t, i), dst, std::move(srcs), final);
    lane.signal();
  }
  std::vector<Ref> all(LaneBuilder& lane, int s, int t, int i) {
    std::vector<Ref> srcs;
    for (int q = 0; q < p_.group; ++q) {
      const int rank = p_.peers()[q];
      if (rank != p_.me) lane.wait(rank, kStage, p_.staged(q, t, s, i));
      srcs.push_back(rank == p_.me ? input(rank) : window(rank, s, slot(t, i), rank));
    }
    return srcs;
  }
  /// Until the window's place of item t may be written again.
  void wait_until_read(LaneBuilder& lane, int s, int t, int i) {
    const auto [round, at] =
        split(int64_t{p_.scatter ? p_.place_of_item(t) : t} - p_.shape.area_blocks, p_.shape.area_items);
    if (exchange_) return exchange_->wait_until_read(lane, s, round, static_cast<int>(at), i);
    if (p_.gather) p_.wait_for_spread(lane, s, round, 0, i);
  }

  // ---- Spread ----
  void spread() {
    LaneBuilder lane(program_, kSpread);
    for (int t = 0; t < p_.shape.blocks; ++t)
      for (int n = 0; n < p_.shards; ++n)
        for (int i = 0; i < p_.k; ++i) {
          const int s = p_.spread_shard(p_.local, n);
          exchange_ ? exchange_->wait_until_finished(lane, s, t, i) : p_.wait_for_own(lane, s, 0, i);
          const Ref src = exchange_ ? exchange_->finished(s, t, i) : window(p_.owner(s), s, p_.slot(0, i));
          lane.copy(p_.chunk(s, gather_block(t), i), output(p_.me), src);
          lane.signal();
        }
  }

  NodeSide p_;
  Program program_;
  std::unique_ptr<Exchange> exchange_;
};

}  // namespace

Frame frame(const Request& r, const ExchangeKind& kind) {
  const Shape shape = kind.shape(r);
  Frame f;
  f.collective = r.collective;
  f.root = r.root;
  f.shards = r.cluster->max_local_size();
  f.chunks_per_block = r.depths.chunks_per_put;
  f.chunks_per_put = r.depths.chunks_per_put * shape.blocks_per_put;
  f.chunks = r.depths.chunks_per_put * shape.blocks;
  f.areas = f.shards;
  f.slots = r.depths.chunks_per_put * shape.area_blocks;
  f.put_slots = r.depths.put_slots;
  return f;
}

Program program(const Request& r, int rank, const ExchangeKind& kind, NodeStage node_stage) {
  return Writer(r, rank, kind, node_stage).write();
}

}  // namespace twohop::two_hop
