// flat and flat-naive: one ring over all ranks. flat keeps the order of the nodes, so that each is entered once and
// left once; flat-naive's neighbours sit on different nodes wherever that is possible. What two-hop is compared with.
//
// Two lanes: reduce-scatter around the ring, all-gather around the ring; a third gives credits back.
//
// A round has n blocks of k chunks. Reduce-scatter: position p sends block p, then what it has folded, and ends with
// block p + 1 complete, in slot n - 1 of area 0. All-gather: from there the blocks p + 1, p, ... go round; those on
// their way to the next rank lie in area 1, if they do not lie in the inbox.
#include <algorithm>

#include "collectives/plan/algorithm.hpp"
#include "collectives/plan/builder.hpp"

namespace twohop::flat_ring {
namespace {

constexpr int kFlatTag = 0x4000, kFlatNaiveTag = 0x5000;  // each: a tag for the ring, one for the gather

enum Lane : int { kRing = 0, kGather = 1, kCredit = 2 };
enum Area : int { kPartials = 0, kFinished = 1 };

class Writer {
 public:
  Writer(const Request& r, int rank, const std::vector<int>& order, int first_tag)
      : cluster_(*r.cluster),
        n_(cluster_.nranks()),
        k_(r.depths.chunks_per_put),
        blocks_(r.depths.blocks),
        me_(rank),
        ring_tag_(first_tag),
        gather_tag_(first_tag + 1) {
    position_ = static_cast<int>(std::find(order.begin(), order.end(), rank) - order.begin());
    next_ = order[(position_ + 1) % n_];
    prev_ = order[(position_ + n_ - 1) % n_];
    for (int t = 0; t < n_; ++t) before_.push_back(order[((position_ - t) % n_ + n_) % n_]);
  }

  Program write() {
    if (n_ == 1) return alone();
    if (!local(next_)) {
      add_link(program_.out, ring_tag_, next_);
      add_link(program_.out, gather_tag_, next_);
    }
    if (!local(prev_)) {
      add_link(program_.in, ring_tag_, prev_);
      add_link(program_.in, gather_tag_, prev_);
    }
    ring();
    gather();
    if (!local(prev_)) credit();
    return std::move(program_);
  }

 private:
  bool local(int rank) const { return cluster_.node_of[rank] == cluster_.node_of[me_]; }
  int block(int t) const { return ((position_ - t) % n_ + n_) % n_; }
  int gather_block(int t) const { return block(t - 1); }
  ChunkId chunk(int b, int i) const { return {0, b * k_ + i}; }

  // Slots and counts. Ring lane: n items a round; gather lane: n items, of which 1 .. n - 2 have a slot in area 1.
  Linear partial(int t, int i) const { return linear(int64_t{n_} * k_, int64_t{t} * k_ + i); }
  Linear finished(int t, int i) const { return linear(int64_t{n_ - 2} * k_, int64_t{t - 1} * k_ + i); }
  Linear done(int64_t round, int64_t t, int i) const { return linear(int64_t{n_} * k_, (round * n_ + t) * k_ + i + 1); }
  Linear puts(int64_t round, int64_t count) const { return linear(n_ - 1, round * (n_ - 1) + count); }

  Program alone() {
    LaneBuilder lane(program_, kRing);
    for (int i = 0; i < k_; ++i) lane.reduce(chunk(0, i), output(me_), {input(me_)}, true);
    return std::move(program_);
  }

  void ring() {
    LaneBuilder lane(program_, kRing);
    for (int t = 0; t < n_; ++t) {
      if (t > 0 && !local(prev_)) lane.arrive(0, puts(0, t));
      for (int i = 0; i < k_; ++i) fold(lane, t, i);
      if (t > 0 && !local(prev_)) lane.release(0, puts(0, t - 1));
      if (t < n_ - 1 && !local(next_)) lane.put(chunk(block(t), 0), 0, puts(0, t), slots(kPartials, t));
    }
  }
  void fold(LaneBuilder& lane, int t, int i) {
    std::vector<Ref> srcs{input(me_)};
    if (t > 0) {
      if (local(prev_)) lane.wait(prev_, kRing, done(0, t - 1, i));
      const Ref theirs =
          local(prev_) ? window(prev_, kPartials, partial(t - 1, i)) : inbox(me_, prev_, ring_tag_, puts(0, t - 1), i);
      // What comes from prev holds the t ranks before this one; the operand with the lowest rank goes left.
      const int lowest = *std::min_element(before_.begin() + 1, before_.begin() + t + 1);
      srcs.insert(lowest < me_ ? srcs.begin() : srcs.end(), theirs);
    }
    wait_until_partial_is_read(lane, t, i);
    lane.reduce(chunk(block(t), i), window(me_, kPartials, partial(t, i)), std::move(srcs), t == n_ - 1);
    lane.signal();
  }
  void wait_until_partial_is_read(LaneBuilder& lane, int t, int i) {
    const auto [round, item] = split(int64_t{t} - blocks_, n_);
    if (item < n_ - 1) {
      if (local(next_))
        lane.wait(next_, kRing, done(round, item + 1, i));
      else
        lane.sent(0, puts(round, item + 1));
      return;
    }
    // Our own gather lane read it before it let the next rank have it.
    if (local(next_))
      lane.wait(next_, kGather, done(round, 1, i));
    else
      lane.sent(1, puts(round, 1));
  }

  void gather() {
    LaneBuilder lane(program_, kGather);
    for (int t = 0; t < n_; ++t) {
      if (t > 0 && !local(prev_)) lane.arrive(1, puts(0, t));
      if (t < n_ - 1 && !local(next_) && direct(t)) forward(lane, t);
      for (int i = 0; i < k_; ++i) pass_on(lane, t, i);
      if (t < n_ - 1 && !local(next_) && !direct(t)) forward(lane, t);
    }
  }
  /// The block of item t can be sent from where it lies, without a copy into area 1.
  bool direct(int t) const { return t > 0 && !local(prev_); }
  bool needs_slot(int t) const { return t > 0 && t < n_ - 1 && (local(next_) || !direct(t)); }
  void forward(LaneBuilder& lane, int t) {
    std::vector<Ref> srcs;
    for (int i = 0; i < k_; ++i)
      srcs.push_back(direct(t) ? inbox(me_, prev_, gather_tag_, puts(0, t - 1), i)
                     : t == 0  ? window(me_, kPartials, partial(n_ - 1, i))
                               : window(me_, kFinished, finished(t, i)));
    lane.put(chunk(gather_block(t), 0), 1, puts(0, t), std::move(srcs));
  }
  void pass_on(LaneBuilder& lane, int t, int i) {
    const ChunkId c = chunk(gather_block(t), i);
    Ref src = arriving(lane, t, i);
    if (needs_slot(t)) {
      wait_until_finished_is_read(lane, t, i);
      const Ref slot = window(me_, kFinished, finished(t, i));
      lane.copy(c, slot, src);
      src = slot;
    }
    lane.copy(c, output(me_), src);
    lane.signal();
  }
  Ref arriving(LaneBuilder& lane, int t, int i) {
    if (t == 0) {
      lane.wait(me_, kRing, done(0, n_ - 1, i));
      return window(me_, kPartials, partial(n_ - 1, i));
    }
    if (!local(prev_)) return inbox(me_, prev_, gather_tag_, puts(0, t - 1), i);
    lane.wait(prev_, kGather, done(0, t - 1, i));
    if (t == 1) return window(prev_, kPartials, partial(n_ - 1, i));
    return window(prev_, kFinished, finished(t - 1, i));
  }
  void wait_until_finished_is_read(LaneBuilder& lane, int t, int i) {
    const auto [round, item] = split(int64_t{t - 1} - blocks_, n_ - 2);
    if (local(next_))
      lane.wait(next_, kGather, done(round, item + 2, i));
    else
      lane.sent(1, puts(round, item + 2));
  }

  void credit() {
    LaneBuilder lane(program_, kCredit);
    for (int t = 1; t < n_; ++t) {
      lane.wait(me_, kGather, done(0, t, k_ - 1));
      if (t < n_ - 1 && !local(next_)) lane.sent(1, puts(0, t + 1));
      lane.release(1, puts(0, t - 1));
    }
  }

  std::vector<Ref> slots(Area area, int t) const {
    std::vector<Ref> refs;
    for (int i = 0; i < k_; ++i) refs.push_back(window(me_, area, partial(t, i)));
    return refs;
  }

  const Cluster& cluster_;
  int n_, k_, blocks_, me_, ring_tag_, gather_tag_, position_ = 0, next_ = 0, prev_ = 0;
  std::vector<int> before_;  // ranks at positions position_ - t
  Program program_;
};

std::vector<int> in_node_order(const Cluster& c) {
  std::vector<int> ranks;
  for (const auto& node : c.nodes) ranks.insert(ranks.end(), node.begin(), node.end());
  return ranks;
}
/// Deals the ranks out like cards: the first of each node, then the second of each, ...
std::vector<int> dealt_out(const Cluster& c) {
  std::vector<int> ranks;
  for (int i = 0; i < c.max_local_size(); ++i)
    for (const auto& node : c.nodes)
      if (i < static_cast<int>(node.size())) ranks.push_back(node[i]);
  return ranks;
}

bool supports(const Cluster&, Collective c) {
  return c == Collective::kAllReduce;
}

Frame frame(const Request& r) {
  Frame f;
  f.collective = r.collective;
  f.shards = 1;
  f.chunks_per_block = f.chunks_per_put = r.depths.chunks_per_put;
  f.chunks = f.chunks_per_put * r.cluster->nranks();
  f.areas = 2;
  f.slots = r.depths.blocks * r.depths.chunks_per_put;
  f.put_slots = r.depths.put_slots;
  return f;
}

Program program(const Request& r, int rank) {
  return Writer(r, rank, in_node_order(*r.cluster), kFlatTag).write();
}
Program naive_program(const Request& r, int rank) {
  return Writer(r, rank, dealt_out(*r.cluster), kFlatNaiveTag).write();
}

double bytes_out_per_byte(const Cluster& c, int node, const std::vector<int>& order) {
  const size_t n = order.size();
  int hops = 0;
  for (size_t i = 0; i < n; ++i) hops += c.node_of[order[i]] == node && c.node_of[order[(i + 1) % n]] != node;
  return hops * 2.0 * (static_cast<double>(n) - 1) / static_cast<double>(n);
}
double flat_bytes_out(const Request& r, int node) {
  return bytes_out_per_byte(*r.cluster, node, in_node_order(*r.cluster));
}
double naive_bytes_out(const Request& r, int node) {
  return bytes_out_per_byte(*r.cluster, node, dealt_out(*r.cluster));
}

}  // namespace

extern const Algorithm kFlat, kFlatNaive;
const Algorithm kFlat{"flat", supports, frame, program, flat_bytes_out, true, true};
const Algorithm kFlatNaive{"flat-naive", supports, frame, naive_program, naive_bytes_out, true, true};

}  // namespace twohop::flat_ring
