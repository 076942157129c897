// See cost_program.hpp: translation of programs, and the comparison of nodes.
#include "collectives/plan/model/cost_program.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <tuple>

#include "base/check.hpp"

namespace twohop {
namespace {

constexpr int kNoFoldBelow = 4;                // nodes: so few are simulated as they are
constexpr uint64_t kCompareAllSteps = 20'000;  // steps of all nodes, up to which every node is compared

Activity work_of(const Step& s) {
  bool reads_input = false, reads_inbox = false;
  for (const Ref& r : s.srcs) {
    reads_input |= r.space == Space::kInput;
    reads_inbox |= r.space == Space::kInbox;
  }
  if (s.kind == StepKind::kReduce) return reads_inbox && !reads_input ? Activity::kFold : Activity::kReduce;
  if (reads_input) return Activity::kReduce;
  return s.dst.space == Space::kOutput ? Activity::kSpread : Activity::kForward;
}

uint8_t user_operands(const Step& s) {
  auto users = [](const Ref& r) { return r.space == Space::kInput || r.space == Space::kOutput; };
  return static_cast<uint8_t>(std::count_if(s.srcs.begin(), s.srcs.end(), users) + (users(s.dst) ? 1 : 0));
}

bool moves_data(StepKind k) {
  return k == StepKind::kCopy || k == StepKind::kReduce;
}

CostStep translate(const Step& s) {
  CostStep c;
  c.kind = s.kind;
  c.srcs = static_cast<uint16_t>(s.srcs.size());
  c.shard = s.shard;
  c.lane = s.lane;
  c.chunk = s.chunk;
  c.rank = s.rank;
  c.target = s.target;
  if (moves_data(s.kind)) {
    c.work = work_of(s);
    c.user_operands = user_operands(s);
  }
  return c;
}

class Maker {
 public:
  Maker(const Algorithm& algorithm, std::shared_ptr<const Cluster> cluster, Collective collective, const Depths& depths)
      : algorithm_(algorithm), cluster_(*cluster), request_{cluster.get(), collective, 0, depths} {
    made_.frame = algorithm.frame(request_);
    made_.cluster = std::move(cluster);
  }

  CostProgram make(Symmetry symmetry) {
    if (symmetry == Symmetry::kAuto && worth_folding())
      if (auto node = node_for_all(); node && fold(*node)) return std::move(made_);
    made_.links.clear();  // of a fold that did not work
    take_all();
    return std::move(made_);
  }

 private:
  using Programs = std::vector<Program>;
  Programs programs_of(int node, const std::vector<int>& locals) const {
    Programs programs;
    for (int l : locals) programs.push_back(algorithm_.program(request_, cluster_.nodes[node][static_cast<size_t>(l)]));
    return programs;
  }
  int distance(int from_node, int to_rank) const {
    const int n = cluster_.nnodes();
    return (cluster_.node_of[to_rank] - from_node + n) % n;
  }

  // ---- Is one node like all? ----
  bool worth_folding() const {
    if (cluster_.nnodes() < kNoFoldBelow) return false;
    const int size = cluster_.local_size(0);
    return std::all_of(cluster_.nodes.begin(), cluster_.nodes.end(),
                       [&](const auto& ranks) { return static_cast<int>(ranks.size()) == size; });
  }
  /// A node like whose neighbours all others are, as far as they are compared. At the ends of the order nodes may have
  /// another local rank as their peer (a ring that goes on with the next local rank there), and nothing else.
  std::optional<int> node_for_all() {
    const int n = cluster_.nnodes(), middle = n / 2;
    std::vector<int> locals(cluster_.nodes[0].size());
    std::iota(locals.begin(), locals.end(), 0);
    model_ = programs_of(middle, locals);
    uint64_t steps = 0;
    for (const Program& p : model_)
      for (const auto& lane : p.lanes) steps += lane.size();
    std::vector<int> others{1, n / 3};
    if (steps * static_cast<uint64_t>(n) <= kCompareAllSteps)
      for (int i = 1; i < n - 1; ++i) others.push_back(i);
    else if (locals.size() > 3)
      locals = {0, static_cast<int>(locals.size()) / 2, static_cast<int>(locals.size()) - 1};
    for (int other : others)
      if (other != middle && !alike(middle, other, locals, true)) return std::nullopt;
    for (int end : {0, n - 1})
      if (!alike(middle, end, locals, false)) return std::nullopt;
    return middle;
  }
  bool alike(int middle, int other, const std::vector<int>& locals, bool same_local_peers) const {
    const Programs theirs = programs_of(other, locals);
    for (size_t i = 0; i < locals.size(); ++i) {
      const Program &a = model_[static_cast<size_t>(locals[i])], &b = theirs[i];
      if (a.lanes.size() != b.lanes.size()) return false;
      if (!alike(a.out, middle, b.out, other, same_local_peers) || !alike(a.in, middle, b.in, other, same_local_peers))
        return false;
      for (size_t l = 0; l < a.lanes.size(); ++l)
        if (!std::equal(a.lanes[l].begin(), a.lanes[l].end(), b.lanes[l].begin(), b.lanes[l].end(),
                        [&](const Step& x, const Step& y) { return alike(x, y); }))
          return false;
    }
    return true;
  }
  bool alike(const std::vector<LinkEnd>& a, int node_a, const std::vector<LinkEnd>& b, int node_b,
             bool same_local_peers) const {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](const LinkEnd& x, const LinkEnd& y) {
      return x.tag == y.tag && distance(node_a, x.peer) == distance(node_b, y.peer) &&
             (!same_local_peers || cluster_.local_of[x.peer] == cluster_.local_of[y.peer]);
    });
  }
  bool alike(const Step& a, const Step& b) const {
    if (a.kind != b.kind || a.link != b.link || a.lane != b.lane || a.srcs.size() != b.srcs.size()) return false;
    if (a.kind == StepKind::kWait && cluster_.local_of[a.rank] != cluster_.local_of[b.rank]) return false;
    if (moves_data(a.kind) && (work_of(a) != work_of(b) || user_operands(a) != user_operands(b))) return false;
    return a.target == b.target;
  }

  /// Leads the links of `node` back to itself. False where some link has no counterpart.
  bool fold(int node) {
    using Key = std::tuple<int, int, int, int>;  // sender's and receiver's local rank, tag, distance
    std::map<Key, int32_t> links;
    std::vector<std::vector<int32_t>> out(model_.size()), in(model_.size());
    const int n = cluster_.nnodes();
    for (size_t i = 0; i < model_.size(); ++i)
      for (const LinkEnd& e : model_[i].out) {
        const int from = static_cast<int>(i), to = cluster_.local_of[e.peer];
        out[i].push_back(add_link(from, to, cluster_.nodes[node][i], e.peer, e.tag));
        if (!links.emplace(Key{from, to, e.tag, distance(node, e.peer)}, out[i].back()).second) return false;
      }
    size_t found = 0;
    for (size_t i = 0; i < model_.size(); ++i)
      for (const LinkEnd& e : model_[i].in) {
        const auto it =
            links.find({cluster_.local_of[e.peer], static_cast<int>(i), e.tag, (n - distance(node, e.peer)) % n});
        if (it == links.end()) return false;
        in[i].push_back(it->second);
        ++found;
      }
    if (found != links.size()) return false;
    made_.nodes = 1;
    made_.folded = true;
    for (size_t i = 0; i < model_.size(); ++i) add_rank(model_[i], cluster_.nodes[node][i], 0, out[i], in[i]);
    return true;
  }

  void take_all() {
    using Key = std::tuple<int, int, int>;  // sender, receiver, tag
    std::map<Key, int32_t> links;
    const int n = cluster_.nranks();
    for (int r = 0; r < n; ++r) {
      const Program p = algorithm_.program(request_, r);
      std::vector<int32_t> out, in;
      auto link = [&](int from, int to, int tag) {
        auto [it, fresh] = links.emplace(Key{from, to, tag}, 0);
        if (fresh) it->second = add_link(from, to, from, to, tag);
        return it->second;
      };
      for (const LinkEnd& e : p.out) out.push_back(link(r, e.peer, e.tag));
      for (const LinkEnd& e : p.in) in.push_back(link(e.peer, r, e.tag));
      add_rank(p, r, cluster_.node_of[r], out, in);
    }
    made_.nodes = cluster_.nnodes();
  }

  int32_t add_link(int src, int dst, int src_rank, int dst_rank, int tag) {
    made_.links.push_back({src, dst, src_rank, dst_rank, static_cast<uint16_t>(tag), 0});
    return static_cast<int32_t>(made_.links.size()) - 1;
  }

  void add_rank(const Program& p, int rank, int node, const std::vector<int32_t>& out, const std::vector<int32_t>& in) {
    CostRank cost;
    cost.rank = rank;
    cost.node = node;
    cost.local = cluster_.local_of[rank];
    cost.links = static_cast<int32_t>(out.size() + in.size());
    for (const auto& lane : p.lanes) {
      auto& steps = cost.lanes.emplace_back();
      steps.reserve(lane.size());
      made_.steps += lane.size();
      for (const Step& s : lane) {
        CostStep c = translate(s);
        if (s.kind == StepKind::kWait && made_.folded) c.rank = cluster_.local_of[s.rank];
        if (s.kind == StepKind::kPut || s.kind == StepKind::kSent) c.link = out[s.link];
        if (s.kind == StepKind::kArrive || s.kind == StepKind::kRelease) c.link = in[s.link];
        if (s.kind == StepKind::kPut) ++made_.links[c.link].puts_per_round;
        steps.push_back(c);
      }
    }
    made_.ranks.push_back(std::move(cost));
  }

  const Algorithm& algorithm_;
  const Cluster& cluster_;
  Request request_;
  Programs model_;  // of the node that may stand for all
  CostProgram made_;
};

}  // namespace

const char* activity_name(Activity w) {
  constexpr const char* kNames[kActivities] = {"reduce", "fold",   "spread", "forward",
                                               "post",   "notice", "sweep",  "switch"};
  return kNames[static_cast<int>(w)];
}

CostProgram make_cost_program(const Algorithm& algorithm, std::shared_ptr<const Cluster> cluster, Collective collective,
                              const Depths& depths, Symmetry symmetry) {
  TWOHOP_CHECK(algorithm.supports(*cluster, collective), "{} for {} on {} ranks", algorithm.name,
               collective_name(collective), cluster->nranks());
  return Maker(algorithm, std::move(cluster), collective, depths).make(symmetry);
}

}  // namespace twohop
