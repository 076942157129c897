// See check_symmetry.hpp.
#include "collectives/plan/check_symmetry.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace twohop {

std::vector<int> Rotation::samples() const {
  std::vector<int> nodes;
  for (const int n : {1, 2, nodes_ / 3, nodes_ / 2, nodes_ - 2, nodes_ - 1})
    if (n > 0 && n < nodes_) nodes.push_back(n);
  std::sort(nodes.begin(), nodes.end());
  nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
  return nodes;
}

bool Rotation::same(const Ref& a, const Ref& b, int by) const {
  const auto moved = [&](int r) { return r < 0 ? r : rank(r, by); };
  return a.space == b.space && moved(a.owner) == b.owner && moved(a.from) == b.from && a.area == b.area &&
         a.part == b.part && a.index == b.index && moved(a.raw_of) == b.raw_of;
}

bool Rotation::same(const Step& a, const Step& b, int by, int chunks) const {
  const bool moves = a.kind == StepKind::kCopy || a.kind == StepKind::kReduce || a.kind == StepKind::kPut;
  const int index = moves ? chunk(static_cast<int>(a.chunk), by, chunks) : static_cast<int>(a.chunk);
  return a.kind == b.kind && a.final == b.final && a.shard == b.shard && index == static_cast<int>(b.chunk) &&
         same(a.dst, b.dst, by) && (a.rank < 0 ? b.rank < 0 : rank(a.rank, by) == b.rank) && a.lane == b.lane &&
         a.link == b.link && a.target == b.target && a.srcs.size() == b.srcs.size();
}

bool Rotation::same(const std::vector<LinkEnd>& a, const std::vector<LinkEnd>& b, int by) const {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [&](const LinkEnd& x, const LinkEnd& y) { return x.tag == y.tag && rank(x.peer, by) == y.peer; });
}

/// Those of a reduce may be in another order, the one that their lowest ranks give.
const char* Rotation::operands(const Step& a, const Step& b, int by,
                               const std::function<int(const Step&, size_t)>& lowest) const {
  int before = -1;
  for (const Ref& ref : b.srcs) {
    const auto like = std::find_if(a.srcs.begin(), a.srcs.end(), [&](const Ref& x) { return same(x, ref, by); });
    if (like == a.srcs.end()) return "a step reads something else";
    if (a.kind != StepKind::kReduce) {
      if (like - a.srcs.begin() != &ref - b.srcs.data()) return "a put sends its chunks in another order";
      continue;
    }
    const int now = lowest(a, static_cast<size_t>(like - a.srcs.begin()));
    if (now <= before) return "an operand stands left of one that holds a lower rank";
    before = now;
  }
  return nullptr;
}

const char* Rotation::difference(const Program& here, const Program& there, int by, int chunks,
                                 const std::function<int(const Step&, size_t)>& lowest) const {
  if (!same(here.out, there.out, by) || !same(here.in, there.in, by)) return "other links";
  if (here.lanes.size() != there.lanes.size()) return "other lanes";
  for (size_t l = 0; l < here.lanes.size(); ++l) {
    if (here.lanes[l].size() != there.lanes[l].size()) return "a lane of another length";
    for (size_t i = 0; i < here.lanes[l].size(); ++i) {
      const Step &a = here.lanes[l][i], &b = there.lanes[l][i];
      if (!same(a, b, by, chunks)) return "another step";
      if (const char* wrong = operands(a, b, by, lowest)) return wrong;
    }
  }
  return nullptr;
}

Program program_of(const Cluster& cluster, const CheckedCall& call, int rank) {
  return call.algorithm->program({&cluster, call.collective, call.root, call.depths}, rank);
}

std::optional<Fault> asymmetry(const Cluster& cluster, const std::vector<CheckedCall>& calls) {
  const auto fault = [](std::string text) { return Fault{FaultKind::kAsymmetry, std::move(text)}; };
  for (int r = 0; r < cluster.nranks(); ++r)
    if (cluster.node_of[r] != r / cluster.local_size(0) ||
        cluster.local_size(cluster.node_of[r]) != cluster.local_size(0))
      return fault("the nodes are not equal, or their ranks are not consecutive");
  for (const CheckedCall& call : calls) {
    const Frame f = call.algorithm->frame({&cluster, call.collective, call.root, call.depths});
    if (f.chunks % cluster.nnodes() != 0 || call.collective == Collective::kBroadcast)
      return fault(
          fmt::format("{} {} does not treat nodes alike", call.algorithm->name, collective_name(call.collective)));
    const auto in_any_order = [next = 0](const Step&, size_t) mutable { return ++next; };
    const Rotation rotation(cluster);
    for (int local = 0; local < rotation.group() && cluster.nnodes() > 1; ++local)
      if (const char* wrong =
              rotation.difference(program_of(cluster, call, local), program_of(cluster, call, rotation.rank(local, 1)),
                                  1, f.chunks, in_any_order))
        return fault(fmt::format("{} {}: local rank {} of node 1 against node 0: {}", call.algorithm->name,
                                 collective_name(call.collective), local, wrong));
  }
  return std::nullopt;
}

}  // namespace twohop
