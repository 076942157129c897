// Whether a program names only what it may: its own buffers, memory and lanes of its own node, links that have two
// ends, indices in range. See check_setup.hpp.
#include <fmt/format.h>

#include <algorithm>

#include "collectives/plan/check_setup.hpp"

namespace twohop {
namespace {

class WellFormed {
 public:
  WellFormed(const CheckSetup& setup, size_t call, int rank)
      : setup_(setup),
        frame_(setup.frames[call]),
        programs_(setup.programs[call]),
        program_(programs_[rank]),
        call_(call),
        rank_(rank) {}

  std::optional<Fault> find() {
    if (auto f = links()) return f;
    for (size_t l = 0; l < program_.lanes.size(); ++l)
      for (size_t i = 0; i < program_.lanes[l].size(); ++i)
        if (const char* wrong = step(program_.lanes[l][i]))
          return fault(fmt::format("lane {} step {} ({}): {}", l, i, step_name(program_.lanes[l][i].kind), wrong));
    return std::nullopt;
  }

 private:
  std::optional<Fault> fault(const std::string& text) const {
    return Fault{FaultKind::kProtocol, fmt::format("call {} rank {} {}", call_, rank_, text)};
  }
  bool on_my_node(int rank) const {
    return rank >= 0 && rank < setup_.cluster.nranks() && setup_.cluster.node_of[rank] == setup_.cluster.node_of[rank_];
  }
  static bool has(const std::vector<LinkEnd>& ends, LinkEnd end) {
    return std::find(ends.begin(), ends.end(), end) != ends.end();
  }

  std::optional<Fault> links() const {
    for (const auto* ends : {&program_.out, &program_.in})
      for (const LinkEnd& e : *ends) {
        if (e.peer < 0 || e.peer >= setup_.cluster.nranks() || on_my_node(e.peer))
          return fault(fmt::format("has a link to rank {}", e.peer));
        const Program& peer = programs_[setup_.stands_for(e.peer)];
        if (!has(ends == &program_.out ? peer.in : peer.out, {e.tag, setup_.seen_from(e.peer, rank_)}))
          return fault(fmt::format("has link {} with rank {}, which has not", e.tag, e.peer));
      }
    return std::nullopt;
  }

  /// What is wrong with a step; null when nothing is.
  const char* step(const Step& s) const {
    switch (s.kind) {
      case StepKind::kCopy:
      case StepKind::kReduce:
        if (s.srcs.empty() || (s.kind == StepKind::kCopy && s.srcs.size() != 1)) return "number of sources";
        if (s.dst.space != Space::kOutput && s.dst.space != Space::kWindow) return "destination";
        if (const char* wrong = ref(s.dst)) return wrong;
        return chunk(s);
      case StepKind::kPut:
        if (s.srcs.size() > static_cast<size_t>(frame_.chunks_per_put)) return "number of sources";
        if (s.link >= program_.out.size()) return "no such link";
        return chunk(s);
      case StepKind::kSent:
        return s.link < program_.out.size() ? nullptr : "no such link";
      case StepKind::kArrive:
      case StepKind::kRelease:
        return s.link < program_.in.size() ? nullptr : "no such link";
      case StepKind::kWait:
        return on_my_node(s.rank) && s.lane < programs_[s.rank].lanes.size() ? nullptr : "no such lane";
      case StepKind::kSignal:
        return nullptr;
    }
    return "no such kind";
  }
  const char* chunk(const Step& s) const {
    if (s.shard >= frame_.shards || s.chunk >= static_cast<uint32_t>(frame_.chunks)) return "no such chunk";
    for (const Ref& r : s.srcs)
      if (const char* wrong = ref(r)) return wrong;
    return nullptr;
  }
  const char* ref(const Ref& r) const {
    if (r.space == Space::kInput || r.space == Space::kOutput)
      return r.owner == rank_ ? nullptr : "another rank's buffer";
    if (!on_my_node(r.owner)) return "another node's memory";
    if (r.space == Space::kWindow) return r.area < frame_.areas ? nullptr : "no such area";
    const auto& in = programs_[r.owner].in;
    if (r.part >= frame_.chunks_per_put) return "no such part of a put";
    return has(in, {r.area, r.from}) ? nullptr : "no such inbox";
  }

  const CheckSetup& setup_;
  const Frame& frame_;
  const std::vector<Program>& programs_;
  const Program& program_;
  size_t call_;
  int rank_;
};

}  // namespace

std::optional<Fault> malformed(const CheckSetup& setup, size_t call, int rank) {
  return WellFormed(setup, call, rank).find();
}

}  // namespace twohop
