// See two_hop.hpp: where a rank stands, and which count says what.
#include "collectives/plan/two_hop.hpp"

namespace twohop::two_hop {

Place::Place(const Request& r, int rank)
    : request(r),
      cluster(*r.cluster),
      me(rank),
      node(cluster.node_of[rank]),
      local(cluster.local_of[rank]),
      group(cluster.local_size(node)),
      nodes(cluster.nnodes()),
      shards(cluster.max_local_size()),
      k(r.depths.chunks_per_put),
      owned_by_(group) {
  for (int s = 0; s < shards; ++s) {
    local_owner_.push_back(cluster.local_owner(node, s));
    ordinal_.push_back(owned_by_[local_owner_.back()]++);
    if (local_owner_.back() == local) owned.push_back(s);
  }
}

int Place::owned_below(int q, int shard) const {
  int below = q < shard ? 1 : 0;
  for (int s = group; s < shard; ++s) below += local_owner_[s] == q;
  return below;
}

NodeSide::NodeSide(const Request& r, int rank, Shape shape_of_round, NodeStage node_stage)
    : Place(r, rank),
      shape(std::move(shape_of_round)),
      stage(node_stage),
      scatter(r.collective != Collective::kAllGather),
      gather(r.collective != Collective::kReduceScatter) {}

std::vector<Ref> NodeSide::own_slots(int shard, int at, int blocks) const {
  std::vector<Ref> refs;
  refs.reserve(static_cast<size_t>(blocks) * k);
  for (int b = 0; b < blocks; ++b)
    for (int i = 0; i < k; ++i) refs.push_back(mine(shard, at + b, i));
  return refs;
}

/// Shards that q stages before `shard`: in a ring those that have to go further come first.
int NodeSide::staged_before(int q, int shard) const {
  if (stage == NodeStage::kDirect) return shard - owned_below(q, shard);
  const int hops = (q - local_owner(shard) - 1 + group) % group;
  int before = ordinal(shard);
  for (int d = 0; d < hops; ++d) before += owned_by((q - d - 1 + group) % group);
  return before;
}

Linear NodeSide::staged(int q, int64_t t, int shard, int i) const {
  if (!scatter) return linear(int64_t{owned_by(q)} * k, int64_t{ordinal(shard)} * k + i + 1);
  const int64_t n = staged_items(q);
  return at_item(t, shape.blocks, shape.blocks * n * k,
                 [&](int64_t u) { return (u * n + staged_before(q, shard)) * k + i + 1; });
}

Linear NodeSide::reduced(int shard, int64_t t, int i) const {
  const int64_t n = owned_by(local_owner(shard));
  return at_item(t, shape.blocks, shape.blocks * n * k,
                 [&](int64_t u) { return (u * n + ordinal(shard)) * k + i + 1; });
}

Linear NodeSide::spread_done(int q, int64_t round, int t, int shard, int i) const {
  const int64_t per_round = int64_t{shape.blocks} * shards * k;
  const int64_t before = (shard - q + shards) % shards;  // see spread_shard()
  return linear(per_round, round * per_round + (int64_t{t} * shards + before) * k + i + 1);
}

void NodeSide::wait_for_spread(LaneBuilder& lane, int shard, int64_t round, int t, int i) const {
  for (int q = 0; q < group; ++q) lane.wait(peers()[q], kSpread, spread_done(q, round, t, shard, i));
}

void NodeSide::wait_for_own(LaneBuilder& lane, int shard, int t, int i) const {
  if (scatter)
    lane.wait(owner(shard), kReduce, reduced(shard, t, i));
  else
    lane.wait(owner(shard), kStage, staged(local_owner(shard), 0, shard, i));
}

namespace {

int find_or_add(std::vector<LinkEnd>& ends, int tag, int peer) {
  const LinkEnd end{static_cast<uint16_t>(tag), peer};
  for (size_t i = 0; i < ends.size(); ++i)
    if (ends[i] == end) return static_cast<int>(i);
  return add_link(ends, tag, peer);
}

}  // namespace

int link_to(Program& program, int tag, int peer) {
  return find_or_add(program.out, tag, peer);
}
int link_from(Program& program, int tag, int peer) {
  return find_or_add(program.in, tag, peer);
}

}  // namespace twohop::two_hop
