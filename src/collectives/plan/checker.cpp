// See checker.hpp. The simulation: calls start and end, lanes advance greedily in any order. What the steps do to
// memory is check_data.cpp's part.
#include "collectives/plan/checker.hpp"

#include <fmt/format.h>

#include "base/check.hpp"
#include "collectives/plan/check_data.hpp"

namespace twohop {

namespace {

struct Lane {
  size_t pc = 0;
  int64_t round = 0;
  uint32_t events = 0;
  Clock clock;
  Digest digest;             // of this round so far
  std::vector<bool> taught;  // by step, in the first call: a wait that brought news
};

struct Rank {
  int call = -1;  // index of the current call
  bool running = false;
  const Program* program = nullptr;
  std::vector<Lane> lanes;
  std::vector<Clock> ended;                    // by call: knowledge at its end
  std::vector<std::vector<ClockLog>> signals;  // by call, lane
};

class Simulation {
 public:
  Simulation(const Cluster& cluster, const std::vector<CheckedCall>& calls, const CheckOptions& options)
      : cluster_(cluster),
        calls_(calls),
        options_(options),
        setup_(cluster, calls, options),
        links_(setup_.links),
        data_(setup_, calls),
        ranks_(setup_.nranks()) {
    for (int r = 0; r < setup_.nranks(); ++r) {
      ranks_[r].lanes.resize(setup_.max_lanes);
      ranks_[r].signals.resize(calls.size(), std::vector<ClockLog>(setup_.max_lanes));
    }
    if (!options.digest_rounds) return;
    report_.round_digests.resize(calls[0].rounds);
    events_per_round_ = setup_.events_per_round();
  }

  CheckReport run() {
    report_.fault = setup_.fault;
    bool progress = true;
    while (progress && !report_.fault) {
      progress = false;
      for (int r = 0; r < setup_.nranks() && !report_.fault; ++r) progress |= advance_rank(r);
    }
    if (!report_.fault) check_end();
    if (!report_.fault && setup_.rotation) report_.fault = data_.check_other_nodes(calls_);
    fill_report();
    return std::move(report_);
  }

 private:
  void fail(FaultKind kind, std::string text) {
    if (!report_.fault) report_.fault = Fault{kind, std::move(text)};
  }

  // ---- The end ----
  bool all_done() const {
    for (const Rank& r : ranks_)
      if (r.running || r.call + 1 < static_cast<int>(calls_.size())) return false;
    return true;
  }
  void check_end() {
    if (!all_done()) return fail(FaultKind::kDeadlock, stuck_text());
    for (const Link& l : links_)
      if (l.released.size() != l.arrived.size())
        return fail(FaultKind::kProtocol, fmt::format("rank {} released {} of {} puts of rank {}", l.dst,
                                                      l.released.size(), l.arrived.size(), l.src));
    if (data_.has_dead_write()) return fail(FaultKind::kDeadWrite, "a value was overwritten that nobody reads");
    if (data_.has_unread()) fail(FaultKind::kDeadWrite, "a slot is left unread at the end");
  }
  void fill_report() {
    const Frame& f = setup_.frames[0];
    report_.chunks_of_buffer = uint64_t(f.shards) * f.chunks * calls_[0].rounds;
    report_.chunks_out_of_node = data_.chunks_out_of_node();
    if (setup_.rotation) report_.chunks_out_of_node.assign(cluster_.nnodes(), data_.chunks_out_of_node()[0]);
    for (int r = 0; r < setup_.nranks(); ++r)
      for (size_t l = 0; l < setup_.programs[0][r].lanes.size(); ++l) note_idle_steps(r, l);
  }
  void note_idle_steps(int r, size_t l) {
    const auto& steps = setup_.programs[0][r].lanes[l];
    const auto& taught = ranks_[r].lanes[l].taught;
    for (size_t i = 0; i < taught.size(); ++i)
      if (is_wait(steps[i].kind) && !taught[i]) report_.idle_steps.push_back({r, l, i});
  }
  static bool is_wait(StepKind k) { return k == StepKind::kWait || k == StepKind::kSent || k == StepKind::kArrive; }

  // ---- Calls of one rank ----
  bool advance_rank(int r) {
    Rank& rank = ranks_[r];
    if (!rank.running) return start_call(r);
    bool progress = false;
    for (size_t l = 0; l < rank.program->lanes.size(); ++l)
      while (!report_.fault && step_lane(r, l)) progress = true;
    if (!report_.fault && finished(rank)) {
      end_call(r);
      progress = true;
    }
    return progress;
  }
  bool start_call(int r) {
    Rank& rank = ranks_[r];
    const int call = rank.call + 1;
    if (call == static_cast<int>(calls_.size())) return false;
    Clock start = call > 0 ? rank.ended.back() : Clock(setup_.width[cluster_.node_of[r]]);
    if (call >= 2 && options_.order_calls)
      for (int peer : cluster_.peers_of(r)) {
        if (static_cast<int>(ranks_[peer].ended.size()) < call - 1) return false;
        join(start, ranks_[peer].ended[call - 2]);
      }
    rank.call = call;
    rank.running = true;
    rank.program = &setup_.programs[call][r];
    for (Lane& l : rank.lanes) l.pc = 0, l.round = 0, l.clock = start;
    if (call == 0)
      for (size_t l = 0; l < rank.program->lanes.size(); ++l)
        rank.lanes[l].taught.resize(rank.program->lanes[l].size());
    for (int l : setup_.links_from[r]) links_[l].posted_at.push_back(links_[l].sent.size());
    for (int l : setup_.links_to[r]) links_[l].arrived_at.push_back(links_[l].released.size());
    return true;
  }
  bool finished(const Rank& rank) const {
    for (size_t l = 0; l < rank.program->lanes.size(); ++l)
      if (!rank.program->lanes[l].empty() && rank.lanes[l].round < calls_[rank.call].rounds) return false;
    return true;
  }
  void end_call(int r) {
    Rank& rank = ranks_[r];
    if (auto f = data_.check_outputs(rank.call, r)) return fail(f->kind, std::move(f->text));
    Clock end(setup_.width[cluster_.node_of[r]]);
    for (const Lane& l : rank.lanes) join(end, l.clock);
    for (int l : setup_.out[rank.call][r]) join(end, links_[l].tx_clock);  // a call ends when all its sources are sent
    rank.ended.push_back(std::move(end));
    rank.running = false;
  }

  // ---- Steps ----
  bool step_lane(int r, size_t l) {
    Rank& rank = ranks_[r];
    Lane& lane = rank.lanes[l];
    const auto& steps = rank.program->lanes[l];
    if (steps.empty() || lane.round == calls_[rank.call].rounds) return false;
    const Step& step = steps[lane.pc];
    at_ = {r, l, lane.pc, lane.round};
    if (!ready(r, step, lane)) return false;
    const uint32_t me = setup_.thread(r, l);
    lane.clock[me] = ++lane.events;
    execute(r, l, step);
    ++report_.steps;
    if (++lane.pc == steps.size()) end_round(r, lane, l);
    return true;
  }
  void end_round(int r, Lane& lane, size_t l) {
    if (digesting(r)) {
      lane.digest.add(r * setup_.max_lanes + l);
      report_.round_digests[lane.round] += lane.digest.value();
      lane.digest = Digest();
    }
    lane.pc = 0;
    ++lane.round;
  }
  bool digesting(int r) const { return options_.digest_rounds && ranks_[r].call == 0; }

  /// True when the step can be done now; joins the knowledge that its condition brings.
  bool ready(int r, const Step& step, Lane& lane) {
    const int call = ranks_[r].call;
    switch (step.kind) {
      case StepKind::kWait:
        return wait_ready(step, lane, call);
      case StepKind::kSent: {
        const Link& link = links_[setup_.out[call][r][step.link]];
        return count_ready(link.sent, link.posted_at.back(), link.tx, step, lane);
      }
      case StepKind::kArrive: {
        const Link& link = links_[setup_.in[call][r][step.link]];
        return count_ready(link.arrived, link.arrived_at.back(), link.rx, step, lane);
      }
      case StepKind::kPut:
        return put_ready(links_[setup_.out[call][r][step.link]], step, lane, call);
      default:
        return true;
    }
  }
  bool wait_ready(const Step& step, Lane& lane, int call) {
    const int64_t target = step.target.at(lane.round);
    if (target <= 0) return true;
    const ClockLog& signals = ranks_[step.rank].signals[call][step.lane];
    if (signals.size() < target) return false;
    take(lane, signals[target - 1], setup_.thread(step.rank, step.lane));
    return true;
  }
  bool count_ready(const ClockLog& events, int64_t before, uint32_t thread, const Step& step, Lane& lane) {
    const int64_t target = step.target.at(lane.round);
    if (target <= 0) return true;
    if (before + target > events.size()) return false;
    take(lane, events[before + target - 1], thread);
    return true;
  }
  void take(Lane& lane, ClockView news, uint32_t thread) {
    if (learn(lane.clock, news, thread) && ranks_[at_.rank].call == 0) lane.taught[lane.pc] = true;
  }
  /// Puts that must have been released before this one: its slot was last used put_slots puts ago in this call, or in
  /// the call before the last.
  int64_t consumed_before(const Link& link, int64_t number, int call) const {
    const int64_t slots = setup_.frames[call].put_slots;
    if (number >= slots) return link.posted_at[call] + number - slots + 1;
    return call >= 2 && options_.order_calls ? link.posted_at[call - 1] : 0;
  }
  bool put_ready(const Link& link, const Step& step, const Lane& lane, int call) {
    const int64_t number = step.target.at(lane.round);
    if (number != link.sent.size() - link.posted_at.back())
      fail(FaultKind::kProtocol, fmt::format("put {} out of order: {}", number, here()));
    return link.released.size() >= consumed_before(link, number, call) && inbox_is_free(link, number, call);
  }
  /// The first put of a call waits for all that other links have put into the inbox before the last call.
  bool waits_for_sharing(int64_t number, int call) const {
    return number == 0 && call >= 2 && options_.order_calls && options_.order_sharing_links;
  }
  bool inbox_is_free(const Link& link, int64_t number, int call) const {
    if (!waits_for_sharing(number, call)) return true;
    for (const int other : link.sharing)
      if (links_[other].released.size() < links_[other].posted_at[call - 1]) return false;
    return true;
  }
  void learn_of_releases(Link& link, int64_t number, int call) {
    if (const int64_t consumed = consumed_before(link, number, call); consumed > 0)
      join(link.rx_clock, link.released[consumed - 1]);
    if (!waits_for_sharing(number, call)) return;
    for (const int other : link.sharing)
      if (const int64_t before = links_[other].posted_at[call - 1]; before > 0)
        join(link.rx_clock, links_[other].released[before - 1]);
  }

  void execute(int r, size_t l, const Step& step) {
    Lane& lane = ranks_[r].lanes[l];
    const ChunkName chunk{ranks_[r].call, static_cast<int32_t>(lane.round), step.shard,
                          static_cast<int32_t>(step.chunk)};
    if (digesting(r)) view_of(r, lane.round).clock(lane.digest, lane.clock);
    switch (step.kind) {
      case StepKind::kCopy:
      case StepKind::kReduce:
        return fold(r, step, chunk, lane, {{setup_.thread(r, l), lane.events}, lane.clock});
      case StepKind::kPut:
        return put(r, step, chunk, lane);
      case StepKind::kRelease:
        return release(r, step, lane);
      case StepKind::kSignal:
        return ranks_[r].signals[chunk.call][l].push(lane.clock);
      default:
        return;
    }
  }
  RoundView view_of(int r, int64_t round) const { return {events_per_round_[cluster_.node_of[r]], round}; }

  void fold(int r, const Step& step, const ChunkName& chunk, Lane& lane, const Access& access) {
    if (digesting(r)) data_.digest(step, chunk, view_of(r, lane.round), lane.digest);
    if (auto fault = data_.fold(r, step, chunk, access)) fail(*fault, here());
  }

  void put(int r, const Step& step, const ChunkName& chunk, Lane& lane) {
    const int id = setup_.out[chunk.call][r][step.link];
    Link& link = links_[id];
    join(link.tx_clock, lane.clock);
    ++link.tx_clock[link.tx];
    learn_of_releases(link, step.target.at(lane.round), chunk.call);
    ++link.rx_clock[link.rx];
    if (digesting(r)) {
      view_of(r, lane.round).clock(lane.digest, link.tx_clock);
      view_of(link.dst, lane.round).clock(lane.digest, link.rx_clock);
      data_.digest(step, chunk, view_of(r, lane.round), lane.digest);
      data_.digest_inbox(id, step, chunk, view_of(link.dst, lane.round), lane.digest);
    }
    const Access tx{{link.tx, link.tx_clock[link.tx]}, link.tx_clock, true};
    const Access rx{{link.rx, link.rx_clock[link.rx]}, link.rx_clock};
    if (auto fault = data_.put(id, step, chunk, tx, rx)) fail(*fault, here());
    link.sent.push(link.tx_clock);
    link.arrived.push(link.rx_clock);
    report_.most_in_flight = std::max(report_.most_in_flight, link.sent.size() - link.released.size());
    if (crosses_rails(link) && !calls_[chunk.call].algorithm->crosses_rails) fail(FaultKind::kRailCrossed, here());
  }

  bool crosses_rails(const Link& link) const {
    const auto ranks_near = [&](int rank) { return cluster_.peers_of(rank).size(); };
    const auto rails = static_cast<size_t>(cluster_.rails);
    return cluster_.rail_of(link.src) != cluster_.rail_of(link.dst) && ranks_near(link.src) >= rails &&
           ranks_near(link.dst) >= rails;
  }

  void release(int r, const Step& step, const Lane& lane) {
    Link& link = links_[setup_.in[ranks_[r].call][r][step.link]];
    const int64_t number = step.target.at(lane.round);
    if (number != link.released.size() - link.arrived_at.back())
      return fail(FaultKind::kProtocol, fmt::format("release {} out of order: {}", number, here()));
    if (lane.clock[link.rx] <= link.released.size())
      return fail(FaultKind::kEarlyRelease, "has not certainly arrived: " + here());
    link.released.push(lane.clock);
  }

  // ---- Texts ----
  std::string here() const {
    const Rank& rank = ranks_[at_.rank];
    const Step& step = rank.program->lanes[at_.lane][at_.step];
    return fmt::format("call {} rank {} lane {} step {} ({}) round {} shard {} chunk {}", rank.call, at_.rank, at_.lane,
                       at_.step, step_name(step.kind), at_.round, step.shard, step.chunk);
  }
  std::string stuck_text() {
    std::string text;
    for (int r = 0; r < setup_.nranks() && text.size() < 2000; ++r)
      for (size_t l = 0; ranks_[r].running && l < ranks_[r].program->lanes.size(); ++l) {
        const Lane& lane = ranks_[r].lanes[l];
        const auto& steps = ranks_[r].program->lanes[l];
        if (steps.empty() || lane.round == calls_[ranks_[r].call].rounds) continue;
        at_ = {r, l, lane.pc, lane.round};
        text += fmt::format("{} waits for ({},{}) {}; ", here(), steps[lane.pc].rank, steps[lane.pc].lane,
                            steps[lane.pc].target.at(lane.round));
      }
    return text;
  }

  struct Position {
    int rank = 0;
    size_t lane = 0, step = 0;
    int64_t round = 0;
  };

  const Cluster& cluster_;
  const std::vector<CheckedCall>& calls_;
  const CheckOptions& options_;
  CheckSetup setup_;
  Links& links_;
  CheckData data_;
  std::vector<Rank> ranks_;
  std::vector<std::vector<uint32_t>> events_per_round_;  // by node, thread; only for digests
  Position at_;
  CheckReport report_;
};

}  // namespace

CheckReport check(const Cluster& cluster, const std::vector<CheckedCall>& calls, const CheckOptions& options) {
  TWOHOP_CHECK(!calls.empty() && cluster.nranks() > 0, "{} calls on {} ranks", calls.size(), cluster.nranks());
  if (options.by_symmetry)
    if (auto fault = asymmetry(cluster, calls)) {
      CheckReport refused;
      refused.fault = std::move(fault);
      return refused;
    }
  return Simulation(cluster, calls, options).run();
}

}  // namespace twohop
