// one-shot: all-reduce of small buffers, in as few steps as there can be. Inside the node every rank shows its input to
// all and folds all inputs itself: one wait for the others instead of two, for more reading. Between nodes the sums are
// exchanged whole by recursive doubling: log2 N steps instead of 2 (N - 1), for more bytes.
//
// The smallest node's number of ranks is the number of columns: local rank c of every node exchanges column c's copy
// of the sum. Where a node has more ranks than columns, the others copy the result from one that has it.
//
// With N no power of two, the first 2 (N - M) nodes, M the next lower power, form pairs: the odd one gives its sum to
// the even one, and gets the result back in the end.
//
//   stage      shows the own input
//   fold       column ranks: folds all inputs of the node into area 1 (one node: into the output)
//   exchange   column ranks: area 1 + j holds what j further folds have made of it
//   spread     the others: copy the result
#include "collectives/plan/algorithm.hpp"
#include "collectives/plan/builder.hpp"

namespace twohop::one_shot {
namespace {

enum Lane : int { kStage = 0, kFold = 1, kExchange = 2, kSpread = 3 };
constexpr int kStaged = 0, kSums = 1;  // areas
constexpr int kTag = 0x6000;           // no two ranks have more than one link each way

/// Recursive doubling on any number of nodes.
class Doubling {
 public:
  explicit Doubling(int nodes) {
    while (2 << bits_ <= nodes) ++bits_;
    pairs_ = nodes - (1 << bits_);
  }
  int bits() const { return bits_; }
  int pairs() const { return pairs_; }
  /// Gives its sum away and gets the result.
  bool steps_aside(int node) const { return node < 2 * pairs_ && node % 2 == 1; }
  bool has_guest(int node) const { return node < 2 * pairs_ && node % 2 == 0; }
  int partner(int node, int bit) const {
    const int place = (node < 2 * pairs_ ? node / 2 : node - pairs_) ^ (1 << bit);
    return place < pairs_ ? 2 * place : place + pairs_;
  }
  /// What a node holds comes from neighbouring nodes: the lower partner's stand left.
  bool stands_left(int node, int bit) const { return node < partner(node, bit); }

 private:
  int bits_ = 0, pairs_ = 0;
};

class Writer {
 public:
  Writer(const Request& r, int rank)
      : cluster_(*r.cluster),
        me_(rank),
        node_(cluster_.node_of[rank]),
        local_(cluster_.local_of[rank]),
        columns_(cluster_.min_local_size()),
        k_(r.depths.chunks_per_put),
        blocks_(r.depths.blocks),
        doubling_(cluster_.nnodes()) {}

  Program write() {
    if (is_read()) stage();
    if (has_column()) fold();
    if (cluster_.nnodes() == 1) return std::move(program_);
    has_column() ? exchange() : spread();
    return std::move(program_);
  }

 private:
  const std::vector<int>& peers() const { return cluster_.peers_of(me_); }
  bool has_column() const { return local_ < columns_; }
  bool is_read() const { return columns_ > 1 || (!has_column()); }
  Linear slot(int64_t i) const { return linear(k_, i); }
  /// Of stage, fold, exchange and spread alike: chunk i of a round is done.
  Linear done(int64_t round, int i) const { return linear(k_, round * k_ + i + 1); }
  Linear puts(int64_t n) const { return linear(1, n); }
  int peer_on(int node) const { return cluster_.nodes[node][local_]; }
  int out(int node) { return link(program_.out, peer_on(node)); }
  int in(int node) { return link(program_.in, peer_on(node)); }
  static int link(std::vector<LinkEnd>& ends, int peer) {
    for (size_t i = 0; i < ends.size(); ++i)
      if (ends[i].peer == peer) return static_cast<int>(i);
    return add_link(ends, kTag, peer);
  }

  // ---- Inside the node ----
  void stage() {
    LaneBuilder lane(program_, kStage);
    for (int i = 0; i < k_; ++i) {
      for (int c = 0; c < columns_; ++c)
        if (c != local_) lane.wait(peers()[c], kFold, done(-blocks_, i));
      lane.copy({0, i}, window(me_, kStaged, slot(i)), input(me_));
      lane.signal();
    }
  }
  void fold() {
    LaneBuilder lane(program_, kFold);
    const bool one_node = cluster_.nnodes() == 1;
    for (int i = 0; i < k_; ++i) {
      std::vector<Ref> srcs;
      for (int peer : peers()) {
        // Also for the own one: in place, the output overwrites what is staged.
        if (peer != me_ || is_read()) lane.wait(peer, kStage, done(0, i));
        srcs.push_back(peer == me_ ? input(me_) : window(peer, kStaged, slot(i), peer));
      }
      if (!one_node) wait_until_exchanged(lane, i);
      lane.reduce({0, i}, one_node ? output(me_) : window(me_, kSums, slot(i)), std::move(srcs), one_node);
      lane.signal();
    }
  }
  /// Until area 1 of `blocks` rounds ago has been folded on, or sent.
  void wait_until_exchanged(LaneBuilder& lane, int i) {
    if (!doubling_.steps_aside(node_)) lane.wait(me_, kExchange, done(-blocks_, i));
    if (!doubling_.has_guest(node_)) lane.sent(out(first_partner()), puts(1 - blocks_));
  }
  int first_partner() const { return doubling_.steps_aside(node_) ? node_ - 1 : doubling_.partner(node_, 0); }

  // ---- Between nodes ----
  void exchange() {
    LaneBuilder lane(program_, kExchange);
    doubling_.steps_aside(node_) ? step_aside(lane) : double_up(lane);
  }
  void step_aside(LaneBuilder& lane) {
    const int host = node_ - 1;
    send(lane, host, kSums, true);
    lane.arrive(in(host), puts(1));
    for (int i = 0; i < k_; ++i) {
      lane.copy({0, i}, output(me_), inbox(me_, peer_on(host), kTag, puts(0), i));
      lane.signal();
    }
    wait_for_readers(lane, 0, k_ - 1);
    lane.release(in(host), puts(0));
  }
  void double_up(LaneBuilder& lane) {
    int area = kSums;
    if (doubling_.has_guest(node_)) fold_in(lane, node_ + 1, area++, true, doubling_.partner(node_, 0));
    for (int bit = 0; bit < doubling_.bits(); ++bit) {
      const int partner = doubling_.partner(node_, bit),
                after = bit + 1 < doubling_.bits() ? doubling_.partner(node_, bit + 1) : -1;
      send(lane, partner, area, area == kSums);
      fold_in(lane, partner, area++, doubling_.stands_left(node_, bit), after);
    }
    if (doubling_.has_guest(node_)) send(lane, node_ + 1, area, false);
  }
  /// `from_fold`: the source is what the fold lane made.
  void send(LaneBuilder& lane, int node, int area, bool from_fold) {
    if (from_fold) lane.wait(me_, kFold, done(0, k_ - 1));
    std::vector<Ref> srcs;
    for (int i = 0; i < k_; ++i) srcs.push_back(window(me_, area, slot(i)));
    lane.put({0, 0}, out(node), puts(0), std::move(srcs));
  }
  /// Folds what arrives from a node with `area` into the next one, which is then sent to node `next`; the last time
  /// (-1), into the result.
  void fold_in(LaneBuilder& lane, int node, int area, bool mine_first, int next) {
    lane.arrive(in(node), puts(1));
    for (int i = 0; i < k_; ++i) {
      if (area == kSums) lane.wait(me_, kFold, done(0, i));
      const Ref mine = window(me_, area, slot(i)), theirs = inbox(me_, peer_on(node), kTag, puts(0), i);
      const std::vector<Ref> srcs = mine_first ? std::vector<Ref>{mine, theirs} : std::vector<Ref>{theirs, mine};
      next < 0 ? finish(lane, area + 1, srcs, i) : fold_on(lane, area + 1, srcs, next, i);
    }
    lane.release(in(node), puts(0));
  }
  void fold_on(LaneBuilder& lane, int area, const std::vector<Ref>& srcs, int next, int i) {
    lane.sent(out(next), puts(1 - blocks_));
    lane.reduce({0, i}, window(me_, area, slot(i)), srcs, false);
  }
  void finish(LaneBuilder& lane, int area, const std::vector<Ref>& srcs, int i) {
    const bool guest = doubling_.has_guest(node_);
    if (!guest && readers().empty()) {
      lane.reduce({0, i}, output(me_), srcs, true);
    } else {
      if (guest) lane.sent(out(node_ + 1), puts(1 - blocks_));
      wait_for_readers(lane, -blocks_, i);
      lane.reduce({0, i}, window(me_, area, slot(i)), srcs, true);
      lane.copy({0, i}, output(me_), window(me_, area, slot(i)));
    }
    lane.signal();
  }

  // ---- Ranks without a column ----
  std::vector<int> readers() const {
    std::vector<int> ranks;
    for (size_t q = local_ + columns_; q < peers().size(); q += columns_) ranks.push_back(peers()[q]);
    return ranks;
  }
  void wait_for_readers(LaneBuilder& lane, int64_t round, int i) {
    for (int rank : readers()) lane.wait(rank, kSpread, done(round, i));
  }
  void spread() {
    LaneBuilder lane(program_, kSpread);
    const int column = local_ % columns_, owner = peers()[column];
    const int folds = (doubling_.has_guest(node_) ? 1 : 0) + doubling_.bits();
    for (int i = 0; i < k_; ++i) {
      lane.wait(owner, kExchange, done(0, i));
      lane.copy({0, i}, output(me_),
                doubling_.steps_aside(node_) ? inbox(owner, cluster_.nodes[node_ - 1][column], kTag, puts(0), i)
                                             : window(owner, kSums + folds, slot(i)));
      lane.signal();
    }
  }

  const Cluster& cluster_;
  int me_, node_, local_, columns_, k_, blocks_;
  Doubling doubling_;
  Program program_;
};

bool supports(const Cluster&, Collective c) {
  return c == Collective::kAllReduce;
}

Frame frame(const Request& r) {
  Frame f;
  f.collective = r.collective;
  f.chunks = f.chunks_per_block = f.chunks_per_put = r.depths.chunks_per_put;
  f.slots = r.depths.blocks * r.depths.chunks_per_put;
  f.put_slots = r.depths.put_slots;
  const Doubling doubling(r.cluster->nnodes());
  if (r.cluster->nnodes() > 1) f.areas = kSums + 1 + (doubling.pairs() > 0 ? 1 : 0) + doubling.bits();
  return f;
}

Program program(const Request& r, int rank) {
  return Writer(r, rank).write();
}

double bytes_out_per_byte(const Request& r, int node) {
  const Doubling doubling(r.cluster->nnodes());
  const int sends = doubling.steps_aside(node) ? 1 : doubling.bits() + (doubling.has_guest(node) ? 1 : 0);
  return r.cluster->min_local_size() * sends;
}

}  // namespace

extern const Algorithm kAlgorithm;
const Algorithm kAlgorithm{"one-shot", supports, frame, program, bytes_out_per_byte};

}  // namespace twohop::one_shot
