// See bound_schedule.hpp.
#include "collectives/exec/bound_schedule.hpp"

#include <algorithm>

#include "base/check.hpp"
#include "collectives/plan/direct.hpp"

namespace twohop {
namespace {

size_t count_sources(const std::vector<Step>& lane) {
  size_t n = 0;
  for (const Step& s : lane) n += s.srcs.size();
  return n;
}

/// Fills in the addresses of one channel.
class Binder {
 public:
  Binder(const Program& program, const Frame& frame, const Cluster& cluster, int rank, const NodeAddresses& node,
         const std::vector<LinkTable>& tables, uint16_t channel)
      : program_(program),
        frame_(frame),
        cluster_(cluster),
        rank_(rank),
        node_(node),
        tables_(tables),
        channel_(channel) {
    check_inboxes();
  }

  /// Writes the step's sources to `sources` and moves that on.
  BoundStep bind(const Step& s, BoundRef*& sources) const {
    BoundStep b;
    b.kind = s.kind;
    b.final = s.final;
    b.shard = s.shard;
    b.chunk = s.chunk;
    b.lane = s.lane;
    b.target = s.target;
    b.dst = bind(s.dst);
    b.srcs = {sources, static_cast<uint32_t>(s.srcs.size())};
    for (const Ref& r : s.srcs) *sources++ = bind(r);
    if (s.kind == StepKind::kWait) {
      b.local = static_cast<int16_t>(cluster_.local_of[s.rank]);
      b.counter = node_.counter(b.local, channel_, s.lane);
    }
    b.link = static_cast<uint32_t>(bind_link(s));
    if (s.kind == StepKind::kPut) bind_inbox(b);
    return b;
  }

 private:
  size_t bind_link(const Step& s) const {
    switch (s.kind) {
      case StepKind::kPut:
      case StepKind::kSent:
        return checked(tables_[node_.me].find_out(out_id(program_.out[s.link])), tables_[node_.me].out);
      case StepKind::kArrive:
      case StepKind::kRelease:
        return checked(tables_[node_.me].find_in(in_id(rank_, program_.in[s.link])), tables_[node_.me].in);
      default:
        return 0;
    }
  }
  void bind_inbox(BoundStep& put) const {
    const LinkTable& mine = tables_[node_.me];
    const auto [first, count] = mine.sharing_with(put.link);
    put.inbox = mine.out_inbox[put.link];
    put.first_sharing = first;
    put.sharing = count;
  }
  /// What a program puts by one of its links may not lie where another one's is.
  void check_inboxes() const {
    const LinkTable& mine = tables_[node_.me];
    std::vector<uint32_t> inboxes;
    for (const LinkEnd& e : program_.out)
      inboxes.push_back(mine.out_inbox[checked(mine.find_out(out_id(e)), mine.out)]);
    std::sort(inboxes.begin(), inboxes.end());
    const auto twice = std::adjacent_find(inboxes.begin(), inboxes.end());
    TWOHOP_CHECK(twice == inboxes.end(), "two links of one program share inbox {}", *twice);
  }
  LinkId out_id(const LinkEnd& e) const { return {channel_, e.tag, rank_, e.peer}; }
  LinkId in_id(int owner, const LinkEnd& e) const { return {channel_, e.tag, e.peer, owner}; }
  static size_t checked(size_t index, const std::vector<LinkId>& links) {
    TWOHOP_CHECK(index < links.size(), "link not connected; {} links", links.size());
    return index;
  }

  BoundRef bind(const Ref& r) const {
    BoundRef b{.space = r.space, .raw_local = -1, .part = r.part, .first_slot = 0, .base = nullptr, .index = r.index};
    if (r.raw_of >= 0) b.raw_local = static_cast<int16_t>(cluster_.local_of[r.raw_of]);
    if (r.space == Space::kInput || r.space == Space::kOutput) return b;
    const int local = cluster_.local_of[r.owner];
    if (r.space == Space::kWindow) {
      b.base = node_.window(local, channel_);
      b.first_slot = static_cast<uint32_t>(r.area) * frame_.slots;
    } else {
      b.base = node_.inbox(local, inbox_number(r));
    }
    return b;
  }
  size_t inbox_number(const Ref& r) const {
    const LinkTable& table = tables_[cluster_.local_of[r.owner]];
    return table.in_inbox[checked(table.find_in({channel_, r.area, r.from, r.owner}), table.in)];
  }

  const Program& program_;
  const Frame& frame_;
  const Cluster& cluster_;
  int rank_;
  const NodeAddresses& node_;
  const std::vector<LinkTable>& tables_;
  uint16_t channel_;
};

}  // namespace

BoundSchedule bind(const Algorithm& algorithm, const Request& request, bool direct, int rank, const NodeAddresses& node,
                   const std::vector<LinkTable>& tables, int channels) {
  BoundSchedule bound{&algorithm, algorithm.frame(request), {}, {}};
  Program program = algorithm.program(request, rank);
  if (direct) program = without_staging(std::move(program), rank, bound.frame.chunks);
  for (int channel = 0; channel < channels; ++channel) {
    const Binder binder(program, bound.frame, *request.cluster, rank, node, tables, static_cast<uint16_t>(channel));
    auto& lanes = bound.lanes.emplace_back();
    for (const auto& lane : program.lanes) {
      auto& steps = lanes.emplace_back();
      bound.sources.push_back(std::make_unique<BoundRef[]>(count_sources(lane)));
      BoundRef* sources = bound.sources.back().get();
      for (const Step& s : lane) steps.push_back(binder.bind(s, sources));
    }
  }
  return bound;
}

}  // namespace twohop
