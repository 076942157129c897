// See checker.hpp. The simulation: lanes advance greedily in any order; every access goes through CheckMemory's rules.
#include "collectives/plan/checker.hpp"

#include <fmt/format.h>

#include <map>

#include "base/check.hpp"
#include "collectives/plan/check_memory.hpp"

namespace twohop {

const char* fault_name(FaultKind k) {
  switch (k) {
    case FaultKind::kContributionDoubled:
      return "contribution doubled";
    case FaultKind::kContributionMissing:
      return "contribution missing";
    case FaultKind::kReadTooEarly:
      return "read too early";
    case FaultKind::kOverwrittenBeforeRead:
      return "overwritten before it is read";
    case FaultKind::kOverwrittenBeforeSent:
      return "source overwritten before sent";
    case FaultKind::kEarlyRelease:
      return "early release";
    case FaultKind::kDeadWrite:
      return "dead write";
    case FaultKind::kDeadlock:
      return "deadlock";
    case FaultKind::kCallOvertaken:
      return "call overtaken";
    case FaultKind::kProtocol:
      return "protocol";
  }
  return "?";
}

namespace {

/// One link of the cluster; counts run over all calls, as in the transport.
struct Link {
  int src = 0, dst = 0;
  uint32_t tx = 0, rx = 0;  // thread ids: reads of the sources, writes of the inbox
  Clock tx_clock, rx_clock;
  std::vector<Clock> sent, arrived;  // by put
  std::vector<Clock> released;       // by put
  std::vector<int64_t> posted_at;    // by call: puts posted before it, seen from the sender
  std::vector<int64_t> arrived_at;   // by call: puts before it, seen from the receiver
};

struct Lane {
  size_t pc = 0;
  int64_t round = 0;
  uint32_t events = 0;
  Clock clock;
};

struct Rank {
  int call = -1;  // index of the current call
  bool running = false;
  Program program;
  std::vector<Lane> lanes;
  std::vector<int> out, in;                              // program links -> links of the cluster
  std::vector<Clock> ended;                              // by call: knowledge at its end
  std::vector<std::vector<std::vector<Clock>>> signals;  // by call, lane: clock of each signal
};

class Simulation {
 public:
  Simulation(const Cluster& cluster, const std::vector<CheckedCall>& calls, const CheckOptions& options)
      : cluster_(cluster), calls_(calls), options_(options), ranks_(cluster.nranks()) {
    report_.chunks_out_of_node.resize(cluster.nnodes());
    for (const CheckedCall& call : calls) frames_.push_back(call.algorithm->frame(request(call)));
    prepare_programs();
    report_.chunks_of_buffer = uint64_t(frames_[0].shards) * frames_[0].chunks * calls[0].rounds;
  }

  CheckReport run() {
    bool progress = true;
    while (progress && !report_.fault) {
      progress = false;
      for (int r = 0; r < cluster_.nranks() && !report_.fault; ++r) progress |= advance_rank(r);
    }
    if (!report_.fault && !all_done()) fail(FaultKind::kDeadlock, stuck_text());
    if (!report_.fault && memory_.has_unread()) fail(FaultKind::kDeadWrite, "a slot is left unread at the end");
    return std::move(report_);
  }

 private:
  Request request(const CheckedCall& c) const { return {&cluster_, c.collective, c.root, c.depths}; }

  void fail(FaultKind kind, std::string text) {
    if (!report_.fault) report_.fault = Fault{kind, std::move(text)};
  }

  // ---- Preparation: all programs, and the thread ids of lanes and links ----
  void prepare_programs() {
    programs_.resize(calls_.size());
    max_lanes_ = 1;
    for (size_t c = 0; c < calls_.size(); ++c)
      for (int r = 0; r < cluster_.nranks(); ++r) {
        Program p = calls_[c].algorithm->program(request(calls_[c]), r);
        if (options_.mutate) options_.mutate(static_cast<int>(c), r, p);
        max_lanes_ = std::max(max_lanes_, p.lanes.size());
        for (const LinkEnd& e : p.out) add_link(r, e.peer, e.tag);
        programs_[c].push_back(std::move(p));
      }
    threads_ = max_lanes_ * ranks_.size() + 2 * links_.size();
    for (Link& l : links_) l.tx_clock = l.rx_clock = Clock(threads_);
    for (Rank& r : ranks_) {
      r.lanes.resize(max_lanes_);
      for (Lane& l : r.lanes) l.clock = Clock(threads_);
      r.signals.resize(calls_.size());
    }
    for (size_t i = 0; i < links_.size(); ++i) {
      links_[i].tx = static_cast<uint32_t>(max_lanes_ * ranks_.size() + 2 * i);
      links_[i].rx = links_[i].tx + 1;
    }
  }
  void add_link(int src, int dst, int tag) {
    if (link_ids_.try_emplace({src, dst, tag}, static_cast<int>(links_.size())).second)
      links_.push_back(Link{.src = src,
                            .dst = dst,
                            .tx_clock = {},
                            .rx_clock = {},
                            .sent = {},
                            .arrived = {},
                            .released = {},
                            .posted_at = {},
                            .arrived_at = {}});
  }
  int find_link(int src, int dst, int tag) {
    const auto it = link_ids_.find({src, dst, tag});
    return it == link_ids_.end() ? -1 : it->second;
  }
  uint32_t thread(int rank, size_t lane) const { return static_cast<uint32_t>(rank * max_lanes_ + lane); }

  // ---- Calls of one rank ----
  bool all_done() const {
    for (const Rank& r : ranks_)
      if (r.running || r.call + 1 < static_cast<int>(calls_.size())) return false;
    return true;
  }

  bool advance_rank(int r) {
    Rank& rank = ranks_[r];
    if (!rank.running) return start_call(r);
    bool progress = false;
    for (size_t l = 0; l < rank.program.lanes.size(); ++l)
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
    Clock start = call > 0 ? rank.ended.back() : Clock(threads_);
    if (call >= 2 && options_.order_calls)
      for (int peer : cluster_.peers_of(r)) {
        if (static_cast<int>(ranks_[peer].ended.size()) < call - 1) return false;
        join(start, ranks_[peer].ended[call - 2]);
      }
    rank.call = call;
    rank.running = true;
    rank.program = programs_[call][r];
    rank.signals[call].resize(max_lanes_);
    for (Lane& l : rank.lanes) l.pc = 0, l.round = 0, l.clock = start;
    bind_links(r);
    init_inputs(r);
    return true;
  }
  void bind_links(int r) {
    Rank& rank = ranks_[r];
    rank.out.clear();
    rank.in.clear();
    for (const LinkEnd& e : rank.program.out) rank.out.push_back(find_link(r, e.peer, e.tag));
    for (const LinkEnd& e : rank.program.in) {
      rank.in.push_back(find_link(e.peer, r, e.tag));
      if (rank.in.back() < 0)
        fail(FaultKind::kProtocol, fmt::format("rank {} listens to {} which has no such link", r, e.peer));
    }
    for (Link& l : links_) {
      if (l.src == r) l.posted_at.push_back(static_cast<int64_t>(l.sent.size()));
      if (l.dst == r) l.arrived_at.push_back(static_cast<int64_t>(l.released.size()));
    }
  }
  void init_inputs(int r) {
    const Rank& rank = ranks_[r];
    const Frame& f = frames_[rank.call];
    for (int64_t round = 0; round < calls_[rank.call].rounds; ++round)
      for (int s = 0; s < f.shards; ++s)
        for (int c = 0; c < f.chunks; ++c) {
          if (!has_input(r, f, s, c)) continue;
          Value v{{rank.call, round, s, c}, RankSet(cluster_.nranks()), is_void(f, s, c)};
          v.ranks.add(r);
          memory_.init(user_key(r, rank.call, Space::kInput, {rank.call, round, s, c}), std::move(v));
        }
  }

  // ---- What a collective means ----
  int block_node(const Frame& f, int chunk) const { return chunk / f.chunks_per_put; }
  int block_owner(const Frame& f, int shard, int chunk) const {
    const auto& ranks = cluster_.nodes[block_node(f, chunk)];
    return ranks[shard % static_cast<int>(ranks.size())];
  }
  bool blocked(const Frame& f) const {
    return f.collective == Collective::kReduceScatter || f.collective == Collective::kAllGather;
  }
  bool is_void(const Frame& f, int shard, int chunk) const {
    return blocked(f) && shard >= cluster_.local_size(block_node(f, chunk));
  }
  bool has_input(int r, const Frame& f, int shard, int chunk) const {
    if (f.collective == Collective::kBroadcast) return r == f.root;
    if (f.collective == Collective::kAllGather) return block_owner(f, shard, chunk) == r;
    return true;
  }
  bool has_output(int r, const Frame& f, int shard, int chunk) const {
    if (f.collective != Collective::kReduceScatter) return true;
    return !is_void(f, shard, chunk) && block_owner(f, shard, chunk) == r;
  }
  RankSet expected(const Frame& f, int shard, int chunk) const {
    RankSet set(cluster_.nranks());
    if (f.collective == Collective::kBroadcast)
      set.add(f.root);
    else if (f.collective == Collective::kAllGather)
      set.add(block_owner(f, shard, chunk));
    else
      for (int r = 0; r < cluster_.nranks(); ++r) set.add(r);
    return set;
  }

  bool finished(const Rank& rank) const {
    for (size_t l = 0; l < rank.program.lanes.size(); ++l)
      if (!rank.program.lanes[l].empty() && rank.lanes[l].round < calls_[rank.call].rounds) return false;
    return true;
  }
  void end_call(int r) {
    Rank& rank = ranks_[r];
    const Frame& f = frames_[rank.call];
    for (int64_t round = 0; round < calls_[rank.call].rounds; ++round)
      for (int s = 0; s < f.shards; ++s)
        for (int c = 0; c < f.chunks; ++c)
          if (has_output(r, f, s, c)) check_output(r, f, {rank.call, round, s, c});
    Clock end(threads_);
    for (const Lane& l : rank.lanes) join(end, l.clock);
    for (int link : rank.out) join(end, links_[link].tx_clock);  // a call ends when all its sources are sent
    rank.ended.push_back(std::move(end));
    rank.running = false;
    if (rank.call == 0) note_frontier(r);
  }
  void check_output(int r, const Frame& f, const ChunkName& chunk) {
    const Value* v = memory_.find(user_key(r, chunk.call, Space::kOutput, chunk));
    const std::string where =
        fmt::format("call {} rank {} round {} shard {} chunk {}", chunk.call, r, chunk.round, chunk.shard, chunk.index);
    if (!v || !(v->ranks == expected(f, chunk.shard, chunk.index)))
      fail(FaultKind::kContributionMissing,
           fmt::format("{}: holds {} contributions of {}", where, v ? v->ranks.size() : 0,
                       expected(f, chunk.shard, chunk.index).size()));
  }
  /// Lanes only: a link's progress relative to its end follows from theirs.
  void note_frontier(int r) {
    if (ranks_[r].ended.size() != 1) return;
    const int64_t rounds = calls_[0].rounds;
    for (size_t t = 0; t < max_lanes_ * ranks_.size(); ++t) {
      const auto& steps = programs_[0][t / max_lanes_].lanes;
      const size_t lane = t % max_lanes_;
      const int64_t length = lane < steps.size() ? static_cast<int64_t>(steps[lane].size()) : 0;
      report_.frontier.push_back(int64_t{ranks_[r].ended[0][t]} - rounds * length);
    }
  }

  // ---- Steps ----
  bool step_lane(int r, size_t l) {
    Rank& rank = ranks_[r];
    Lane& lane = rank.lanes[l];
    const auto& steps = rank.program.lanes[l];
    if (steps.empty() || lane.round == calls_[rank.call].rounds) return false;
    const Step& step = steps[lane.pc];
    at_ = {r, l, &step, lane.round};
    if (!ready(r, step, lane)) return false;
    ++lane.events;
    lane.clock[thread(r, l)] = lane.events;
    execute(r, l, step);
    ++report_.steps;
    if (++lane.pc == steps.size()) lane.pc = 0, ++lane.round;
    return true;
  }

  /// True when the step can be done now; joins the knowledge that its condition brings.
  bool ready(int r, const Step& step, Lane& lane) {
    switch (step.kind) {
      case StepKind::kWait:
        return wait_ready(step, lane, ranks_[r].call);
      case StepKind::kSent:
        return count_ready(link_of(r, step, true).sent, link_of(r, step, true).posted_at, step, lane);
      case StepKind::kArrive:
        return count_ready(link_of(r, step, false).arrived, link_of(r, step, false).arrived_at, step, lane);
      case StepKind::kPut:
        return put_ready(link_of(r, step, true), step, lane, ranks_[r].call);
      default:
        return true;
    }
  }
  Link& link_of(int r, const Step& step, bool out) {
    return links_[out ? ranks_[r].out[step.link] : ranks_[r].in[step.link]];
  }
  bool wait_ready(const Step& step, Lane& lane, int call) {
    const int64_t target = step.target.at(lane.round);
    if (target <= 0) return true;
    const Rank& other = ranks_[step.rank];
    if (other.call < call) return false;
    const auto& signals = other.signals[call][step.lane];
    if (static_cast<int64_t>(signals.size()) < target) return false;
    join(lane.clock, signals[target - 1]);
    return true;
  }
  bool count_ready(const std::vector<Clock>& events, const std::vector<int64_t>& start, const Step& step, Lane& lane) {
    const int64_t target = step.target.at(lane.round);
    if (target <= 0) return true;
    const int64_t index = start.back() + target - 1;
    if (index >= static_cast<int64_t>(events.size())) return false;
    join(lane.clock, events[index]);
    return true;
  }
  /// A put's slot was last used put_slots puts ago in this call, or in the call before the last.
  bool put_ready(Link& link, const Step& step, Lane& lane, int call) {
    const int64_t number = step.target.at(lane.round);
    const int64_t slots = frames_[call].put_slots;
    if (number != static_cast<int64_t>(link.sent.size()) - link.posted_at.back())
      fail(FaultKind::kProtocol, fmt::format("put {} out of order: {}", number, here()));
    int64_t consumed = 0;
    if (number >= slots)
      consumed = link.posted_at[call] + number - slots + 1;
    else if (call >= 2 && options_.order_calls)
      consumed = link.posted_at[call - 1];
    if (static_cast<int64_t>(link.released.size()) < consumed) return false;
    if (consumed > 0) join(lane.clock, link.released[consumed - 1]);
    return true;
  }

  void execute(int r, size_t l, const Step& step) {
    Lane& lane = ranks_[r].lanes[l];
    const Access access{{thread(r, l), lane.events}, &lane.clock};
    switch (step.kind) {
      case StepKind::kCopy:
      case StepKind::kReduce:
        return fold(r, step, lane, access);
      case StepKind::kPut:
        return put(r, step, lane);
      case StepKind::kRelease:
        return release(r, step, lane);
      case StepKind::kSignal:
        ranks_[r].signals[ranks_[r].call][l].push_back(lane.clock);
        return;
      default:
        return;
    }
  }

  void fold(int r, const Step& step, const Lane& lane, const Access& access) {
    const ChunkName chunk{ranks_[r].call, lane.round, step.shard, static_cast<int>(step.chunk)};
    Value sum{chunk, RankSet(cluster_.nranks()), is_void(frames_[chunk.call], chunk.shard, chunk.index)};
    for (const Ref& ref : step.srcs) {
      const Value* v = nullptr;
      if (auto fault = memory_.read(key(ref, chunk), chunk, access, &v)) return fail(*fault, "source: " + here());
      if (sum.ranks.overlaps(v->ranks)) return fail(FaultKind::kContributionDoubled, here());
      sum.ranks.unite(v->ranks);
    }
    const CellSpace space = step.dst.space == Space::kWindow ? CellSpace::kWindow : CellSpace::kUser;
    if (auto fault = memory_.write(key(step.dst, chunk), space, std::move(sum), access)) fail(*fault, here());
  }

  void put(int r, const Step& step, const Lane& lane) {
    Link& link = link_of(r, step, true);
    const int call = ranks_[r].call;
    const Frame& f = frames_[call];
    join(link.tx_clock, lane.clock);
    ++link.tx_clock[link.tx];
    join(link.rx_clock, link.tx_clock);
    ++link.rx_clock[link.rx];
    const Access tx{{link.tx, link.tx_clock[link.tx]}, &link.tx_clock, true};
    const Access rx{{link.rx, link.rx_clock[link.rx]}, &link.rx_clock};
    for (size_t i = 0; i < step.srcs.size(); ++i) {
      const ChunkName chunk{call, lane.round, step.shard, static_cast<int>((step.chunk + i) % f.chunks)};
      const Value* v = nullptr;
      if (auto fault = memory_.read(key(step.srcs[i], chunk), chunk, tx, &v))
        return fail(*fault, "put source: " + here());
      if (call == 0 && !v->is_void) ++report_.chunks_out_of_node[cluster_.node_of[r]];
      const Key to =
          inbox_key(link.src, link.dst, tag_of(r, step), call, step.target.at(lane.round), static_cast<int>(i));
      if (auto fault = memory_.write(to, CellSpace::kInbox, *v, rx)) return fail(*fault, "inbox: " + here());
    }
    link.sent.push_back(link.tx_clock);
    link.arrived.push_back(link.rx_clock);
  }
  int tag_of(int r, const Step& step) const { return ranks_[r].program.out[step.link].tag; }

  void release(int r, const Step& step, const Lane& lane) {
    Link& link = link_of(r, step, false);
    const int64_t number = step.target.at(lane.round);
    if (number != static_cast<int64_t>(link.released.size()) - link.arrived_at.back())
      return fail(FaultKind::kProtocol, fmt::format("release {} out of order: {}", number, here()));
    if (link.released.size() >= link.arrived.size())
      return fail(FaultKind::kEarlyRelease, "nothing has arrived: " + here());
    link.released.push_back(lane.clock);
  }

  // ---- Keys of memory cells ----
  using Key = CheckMemory::Key;
  static Key pack(uint64_t space, uint64_t a, uint64_t b, uint64_t c, uint64_t d) {
    return space << 62 | a << 47 | b << 32 | c << 16 | d;
  }
  Key user_key(int r, int call, Space space, const ChunkName& c) const {
    const uint64_t side = calls_[call].in_place || space == Space::kInput ? 0 : 1;
    return pack(0, r, c.shard, static_cast<uint64_t>(call * 1024 + c.round) * 2 + side, c.index);
  }
  Key inbox_key(int src, int dst, int tag, int call, int64_t number, int part) {
    const int slots = frames_[call].put_slots;
    const int link = find_link(src, dst, tag);
    return pack(2, link, call & 1, static_cast<uint64_t>(number % slots), part);
  }
  Key key(const Ref& ref, const ChunkName& chunk) {
    const int call = chunk.call;
    if (ref.space == Space::kInput || ref.space == Space::kOutput) return user_key(ref.owner, call, ref.space, chunk);
    const int64_t index = ref.index.at(chunk.round);
    if (ref.space == Space::kWindow) {
      if (ref.area >= frames_[call].areas) fail(FaultKind::kProtocol, "area out of range: " + here());
      return pack(1, ref.owner, call & 1, ref.area, static_cast<uint64_t>(index % frames_[call].slots));
    }
    for (const LinkEnd& e : programs_[call][ref.owner].in)
      if (e.tag == ref.area) return inbox_key(e.peer, ref.owner, e.tag, call, index, ref.part);
    fail(FaultKind::kProtocol, "no such inbox: " + here());
    return 0;
  }

  // ---- Texts ----
  std::string here() const {
    return fmt::format("call {} rank {} lane {} step {} ({}) round {} shard {} chunk {}", ranks_[at_.rank].call,
                       at_.rank, at_.lane, at_.step - ranks_[at_.rank].program.lanes[at_.lane].data(),
                       step_name(at_.step->kind), at_.round, at_.step->shard, at_.step->chunk);
  }
  std::string stuck_text() {
    std::string text;
    for (int r = 0; r < cluster_.nranks() && text.size() < 2000; ++r)
      for (size_t l = 0; ranks_[r].running && l < ranks_[r].program.lanes.size(); ++l) {
        const Lane& lane = ranks_[r].lanes[l];
        const auto& steps = ranks_[r].program.lanes[l];
        if (steps.empty() || lane.round == calls_[ranks_[r].call].rounds) continue;
        at_ = {r, l, &steps[lane.pc], lane.round};
        text += fmt::format("{} waits for ({},{}) {}; ", here(), steps[lane.pc].rank, steps[lane.pc].lane,
                            steps[lane.pc].target.at(lane.round));
      }
    return text;
  }

  struct Position {
    int rank = 0;
    size_t lane = 0;
    const Step* step = nullptr;
    int64_t round = 0;
  };

  const Cluster& cluster_;
  const std::vector<CheckedCall>& calls_;
  const CheckOptions& options_;
  std::vector<Rank> ranks_;
  std::vector<Frame> frames_;
  std::vector<std::vector<Program>> programs_;  // by call, rank
  std::vector<Link> links_;
  std::map<std::tuple<int, int, int>, int> link_ids_;
  size_t max_lanes_ = 0, threads_ = 0;
  CheckMemory memory_;
  Position at_;
  CheckReport report_;
};

}  // namespace

CheckReport check(const Cluster& cluster, const std::vector<CheckedCall>& calls, const CheckOptions& options) {
  TWOHOP_CHECK(!calls.empty() && cluster.nranks() > 0, "{} calls on {} ranks", calls.size(), cluster.nranks());
  return Simulation(cluster, calls, options).run();
}

}  // namespace twohop
