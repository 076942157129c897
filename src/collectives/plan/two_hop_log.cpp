// two-hop-log: the two-hop frame with a log-step exchange on a circulant graph: ceil(log2 N) steps each way for any
// number of nodes, and (N - 1)/N of a shard each way.
//
// After J. L. Traeff, "Optimal, Non-pipelined Reduce-scatter and Allreduce Algorithms" (2024). Node r counts blocks
// from its own: relative block j is block r + j. The skips halve N, rounding up: s = N, then s' = ceil(s / 2), ... 1.
// In the step from s to s' node r sends its partial results of relative blocks s' .. s - 1 to node r + s', which folds
// them into its relative blocks 0 .. s - s' - 1. Afterwards relative block 0 is complete. The all-gather runs the steps
// backwards: node r sends 0 .. s - s' - 1 to node r - s', where they become s' .. s - 1.
//
//   scatter  the steps of the reduce-scatter
//   gather   those of the all-gather; copies what arrives into the place of its relative block, from where it is sent
//   on
//            in one piece, and spread
//
// All blocks of a round have their place in the window, place = relative block, for two rounds at a time. A step of an
// all-reduce is one put; in the other collectives blocks are not contiguous in the user's memory, and each is a put.
#include "collectives/plan/two_hop.hpp"

namespace twohop::two_hop {
namespace {

enum : int { kScatterLane = 0, kGatherLane = 1, kLanes = 2 };
constexpr int kRoundsInWindow = 2;

/// Relative blocks skip .. end - 1 go over a distance of `skip` nodes.
struct Skip {
  int skip, end;
  int blocks() const { return end - skip; }
};

std::vector<Skip> skips(int nodes) {
  std::vector<Skip> all;
  for (int s = nodes; s > 1; s = (s + 1) / 2) all.push_back({(s + 1) / 2, s});
  return all;
}

class Log final : public Exchange {
 public:
  Log(const NodeSide& place, Program& program)
      : p_(place), program_(program), skips_(skips(p_.nodes)), per_put_(p_.shape.blocks_per_put) {
    find_lowest();
  }

  int scatter_block(int t) const override { return block(p_.place_of_item(t)); }
  int gather_block(int t) const override { return block(t); }

  void write(int s) override {
    if (p_.scatter) scatter(s);
    if (p_.gather) gather(s);
  }

  void wait_until_read(LaneBuilder& lane, int s, int64_t round, int at, int i) override {
    if (p_.gather) {
      for (const Skip& step : skips_)
        if (at < step.blocks()) lane.sent(gather_out(s, step), puts(step, round, at / per_put_ + 1));
      return p_.wait_for_spread(lane, s, round, at, i);
    }
    if (at == 0) return lane.wait(p_.me, p_.lane(s, kScatterLane), completed(round, i));
    const Skip& step = *std::find_if(skips_.begin(), skips_.end(), [&](const Skip& x) { return at >= x.skip; });
    lane.sent(scatter_out(s, step), puts(step, round, (at - step.skip) / per_put_ + 1));
  }
  void wait_until_finished(LaneBuilder& lane, int s, int t, int i) const override {
    if (t > 0)
      lane.wait(p_.owner(s), p_.lane(s, kGatherLane),
                linear(int64_t{p_.nodes - 1} * p_.k, int64_t{t - 1} * p_.k + i + 1));
    else
      wait_until_complete(lane, s, i);
  }
  Ref finished(int s, int t, int i) const override { return window(p_.owner(s), s, p_.slot(t, i)); }

 private:
  int block(int relative) const { return p_.mod_node(p_.node + relative); }
  /// The item of the reduce-scatter that handles a relative block: those that leave first come first.
  int item(int relative) const {
    for (const Skip& step : skips_)
      if (relative >= step.skip) return p_.nodes - step.end + relative - step.skip;
    return p_.nodes - 1;
  }
  Linear completed(int64_t round, int i) const { return linear(p_.k, round * p_.k + i + 1); }
  int puts_of(const Skip& step) const { return (step.blocks() + per_put_ - 1) / per_put_; }
  Linear puts(const Skip& step, int64_t round, int64_t count) const {
    return linear(puts_of(step), round * puts_of(step) + count);
  }

  void wait_until_complete(LaneBuilder& lane, int s, int i) const {
    if (p_.scatter)
      lane.wait(p_.owner(s), p_.lane(s, kScatterLane), completed(0, i));
    else
      p_.wait_for_own(lane, s, 0, i);
  }

  // ---- Reduce-scatter ----
  void scatter(int s) {
    LaneBuilder lane(program_, p_.lane(s, kScatterLane));
    for (const Skip& step : skips_)
      exchange(
          step, [&](int u) { scatter_put(lane, s, step, u); }, [&](int u) { scatter_fold(lane, s, step, u); });
  }
  /// The puts of a step and their counterparts: as many at once as there are slots, since with more all would wait for
  /// credits. All of these are then taken, so that the credit is due at once: for single slots it may be held back.
  template <class Put, class Take>
  void exchange(const Skip& step, Put put, Take take) const {
    const int puts = puts_of(step), slots = p_.request.depths.put_slots;
    for (int first = 0; first < puts; first += slots) {
      const int end = std::min(puts, first + slots);
      for (int u = first; u < end; ++u) put(u);
      for (int u = first; u < end; ++u) take(u);
    }
  }
  int blocks_of(const Skip& step, int put) const { return std::min(per_put_, step.blocks() - put * per_put_); }
  void scatter_put(LaneBuilder& lane, int s, const Skip& step, int u) {
    const int first = u * per_put_, blocks = blocks_of(step, u);
    lane.wait(p_.me, kReduce, p_.reduced(s, item(step.skip + first + blocks - 1), p_.k - 1));
    lane.put(p_.chunk(s, block(step.skip + first), 0), scatter_out(s, step), puts(step, 0, u),
             p_.own_slots(s, step.skip + first, blocks));
  }
  void scatter_fold(LaneBuilder& lane, int s, const Skip& step, int u) {
    const int first = u * per_put_, blocks = blocks_of(step, u);
    const int in = link_from(program_, tag(s, LinkKind::kScatter), behind(s, step));
    lane.arrive(in, puts(step, 0, u + 1));
    for (int b = 0; b < blocks; ++b)
      for (int i = 0; i < p_.k; ++i) {
        lane.wait(p_.me, kReduce, p_.reduced(s, item(first + b), i));
        fold(lane, s, step, first + b,
             inbox(p_.me, behind(s, step), tag(s, LinkKind::kScatter), puts(step, 0, u), b * p_.k + i), i);
      }
    lane.release(in, puts(step, 0, u));
  }
  void fold(LaneBuilder& lane, int s, const Skip& step, int relative, const Ref& theirs, int i) {
    const bool last = step.skip == 1;  // relative block 0 is complete
    const bool to_output = last && !p_.gather && s == p_.local;
    const Ref mine = p_.mine(s, relative, i);
    const bool mine_first = mine_first_[item(relative + step.skip)];
    lane.reduce(p_.chunk(s, block(relative), i), to_output ? output(p_.me) : mine,
                mine_first ? std::vector<Ref>{mine, theirs} : std::vector<Ref>{theirs, mine}, last);
    if (last) lane.signal();
  }
  /// For each relative block that arrives, under the number that it had at its sender: does the own partial result hold
  /// a lower node than the one that arrives? The contributions of relative block j come from nodes r - offset.
  void find_lowest() {
    if (!p_.scatter) return;
    std::vector<std::vector<int>> offsets(p_.nodes, {0});
    mine_first_.resize(p_.nodes);
    const auto lowest = [&](const std::vector<int>& of, int shift) {
      int node = p_.nodes;
      for (int o : of) node = std::min(node, p_.mod_node(p_.node - o - shift));
      return node;
    };
    for (const Skip& step : skips_)
      for (int j = 0; j < step.blocks(); ++j) {
        auto &mine = offsets[j], &theirs = offsets[step.skip + j];
        mine_first_[item(step.skip + j)] = lowest(mine, 0) < lowest(theirs, step.skip);
        for (int o : theirs) mine.push_back(o + step.skip);
      }
  }

  // ---- All-gather ----
  void gather(int s) {
    LaneBuilder lane(program_, p_.lane(s, kGatherLane));
    wait_until_complete(lane, s, p_.k - 1);
    for (auto step = skips_.rbegin(); step != skips_.rend(); ++step)
      exchange(
          *step, [&](int u) { gather_put(lane, s, *step, u); }, [&](int u) { gather_take(lane, s, *step, u); });
  }
  void gather_put(LaneBuilder& lane, int s, const Skip& step, int u) {
    const int first = u * per_put_;
    lane.put(p_.chunk(s, block(first), 0), gather_out(s, step), puts(step, 0, u),
             p_.own_slots(s, first, blocks_of(step, u)));
  }
  void gather_take(LaneBuilder& lane, int s, const Skip& step, int u) {
    const int in = link_from(program_, tag(s, LinkKind::kGather), ahead(s, step));
    lane.arrive(in, puts(step, 0, u + 1));
    for (int b = 0; b < blocks_of(step, u); ++b)
      for (int i = 0; i < p_.k; ++i) keep(lane, s, step, u, b, i);
    lane.release(in, puts(step, 0, u));
  }
  /// Copies block `b` of a put to its place, once what was there is sent (all-reduce), or sent and spread.
  void keep(LaneBuilder& lane, int s, const Skip& step, int u, int b, int i) {
    const int at = step.skip + u * per_put_ + b;
    if (p_.scatter)
      lane.sent(scatter_out(s, step), puts(step, 0, u + 1));
    else
      wait_until_read(lane, s, -kRoundsInWindow, at, i);
    lane.copy(p_.chunk(s, block(at), i), p_.mine(s, at, i),
              inbox(p_.me, ahead(s, step), tag(s, LinkKind::kGather), puts(step, 0, u), b * p_.k + i));
    lane.signal();
  }

  // ---- Links ----
  int ahead(int s, const Skip& step) const { return p_.owner(p_.mod_node(p_.node + step.skip), s); }
  int behind(int s, const Skip& step) const { return p_.owner(p_.mod_node(p_.node - step.skip), s); }
  int scatter_out(int s, const Skip& step) { return link_to(program_, tag(s, LinkKind::kScatter), ahead(s, step)); }
  int gather_out(int s, const Skip& step) { return link_to(program_, tag(s, LinkKind::kGather), behind(s, step)); }

  const NodeSide& p_;
  Program& program_;
  std::vector<Skip> skips_;
  int per_put_;
  std::vector<bool> mine_first_;  // by item of the block that arrives
};

Shape shape(const Request& r) {
  Shape s;
  const int nodes = s.blocks = s.area_items = r.cluster->nnodes();
  s.area_blocks = nodes > 1 ? kRoundsInWindow * nodes : r.depths.blocks;
  s.lanes = kLanes;
  if (r.collective == Collective::kAllReduce) s.blocks_per_put = std::max(1, nodes / 2);
  if (r.collective == Collective::kAllGather || nodes == 1) return s;
  for (const Skip& step : skips(nodes))
    for (int j = step.skip; j < step.end; ++j) s.slot.push_back(j);
  s.slot.push_back(0);
  return s;
}

/// The steps of the all-gather with one block, the root's: a binomial tree. Position 1 tells the root.
Route tree(int position, int nodes) {
  Route r;
  r.kind = LinkKind::kScatter;
  r.closing_kind = LinkKind::kGather;
  r.closes_from = 1;
  const std::vector<Skip> steps = skips(nodes);
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    if (position >= step->skip && position < step->end) r.from = position - step->skip;
    if (position < step->blocks()) r.to.push_back(position + step->skip);
  }
  return r;
}

bool supports(const Cluster&, Collective) {
  return true;
}
Frame make_frame(const Request& r) {
  return r.collective == Collective::kBroadcast ? broadcast_frame(r) : frame(r, kLog);
}
Program make_program(const Request& r, int rank) {
  if (r.collective == Collective::kBroadcast) return broadcast(r, rank, tree);
  return program(r, rank, kLog, NodeStage::kDirect);
}

double all_gathered(const Cluster& c, int node) {
  int ranks = 0;
  for (const Skip& step : skips(c.nnodes()))
    for (int j = 0; j < step.blocks(); ++j) ranks += c.local_size((node + j) % c.nnodes());
  return static_cast<double>(ranks) / c.nranks();
}

}  // namespace

double log_bytes_out_per_byte(const Request& r, int node) {
  const Cluster& c = *r.cluster;
  const int n = c.nnodes();
  switch (r.collective) {
    case Collective::kAllReduce:
      return 2 * (n - 1.0) / n;
    case Collective::kReduceScatter:  // all blocks but the own one
      return 1 - static_cast<double>(c.local_size(node)) / c.nranks();
    case Collective::kAllGather:
      return all_gathered(c, node);
    case Collective::kBroadcast:
      return static_cast<double>(tree((node - c.node_of[r.root] + n) % n, n).to.size());
  }
  return 0;
}

const ExchangeKind kLog{shape, [](const NodeSide& place, Program& program) -> std::unique_ptr<Exchange> {
                          return std::make_unique<Log>(place, program);
                        }};

extern const Algorithm kTwoHopLog;
const Algorithm kTwoHopLog{"two-hop-log", supports, make_frame, make_program, log_bytes_out_per_byte};

}  // namespace twohop::two_hop
