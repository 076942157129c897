// See simulator.hpp. Time is handled so that no event sees what happens later: a step whose effect depends on others (a
// wait, a put) runs only at the time of its event; if the lane's turn has taken time before it, it gets an event of its
// own.
#include "collectives/plan/model/simulator.hpp"

#include <algorithm>
#include <functional>

#include "collectives/plan/model/cores.hpp"
#include "collectives/plan/model/simulator_state.hpp"
#include "collectives/plan/model/step_cost.hpp"
#include "collectives/plan/model/wire.hpp"

namespace twohop {
namespace {

using namespace sim;

constexpr double kSliceUs = 3000;  // Linux's usual slice

class Run {
 public:
  Run(const CostProgram& program, const NetworkModel& model, const SimulatedSize& size)
      : program_(program),
        model_(model),
        size_(size),
        channels_(size.layout->channels()),
        cost_(program, model, size),
        wire_(program, model, channels_),
        cores_(program, model),
        ranks_(program.ranks.size()),
        links_(program.links.size() * static_cast<size_t>(channels_)) {
    run_.ranks.resize(ranks_.size());
    run_.round_end_us.resize(static_cast<size_t>(size.rounds));
    run_.wire_first_us = kNever;
    for (size_t r = 0; r < ranks_.size(); ++r) add_lanes(r);
  }

  SimulatedRun run() {
    for (size_t r = 0; r < ranks_.size(); ++r) wake(static_cast<int>(r), 0);
    while (!events_.empty()) {
      const Event e = events_.top();
      events_.pop();
      Rank& rank = ranks_[static_cast<size_t>(e.rank)];
      if (e.token != rank.token) continue;
      if (rank.state == Rank::State::kIdle) {
        start(e.rank, e.at_us);
      } else {
        go_on(e.rank, e.at_us);
      }
    }
    finish();
    return std::move(run_);
  }

 private:
  void add_lanes(size_t r) {
    Rank& rank = ranks_[r];
    rank.first_lane = lanes_.size();
    const auto& lanes = program_.ranks[r].lanes;
    lanes_per_channel_.push_back(lanes.size());
    for (int c = 0; c < channels_; ++c)
      for (size_t l = 0; l < lanes.size(); ++l) {
        Lane lane;
        lane.channel = static_cast<int16_t>(c);
        lane.number = static_cast<int16_t>(l);
        if (!lanes[l].empty()) {
          lane.steps = &lanes[l];
          ++rank.lanes_left;
        }
        lanes_.push_back(std::move(lane));
      }
    rank.lanes = lanes_.size() - rank.first_lane;
  }
  size_t lane_index(int rank, int channel, int lane) const {
    const auto r = static_cast<size_t>(rank);
    return ranks_[r].first_lane + static_cast<size_t>(channel) * lanes_per_channel_[r] + static_cast<size_t>(lane);
  }
  size_t link_index(int link, int channel) const {
    return static_cast<size_t>(channel) * program_.links.size() + static_cast<size_t>(link);
  }

  // ---- Events and cores ----
  void schedule(int r, double at_us) {
    Rank& rank = ranks_[static_cast<size_t>(r)];
    rank.token = ++tokens_;
    events_.push({at_us, rank.token, r});
  }
  void wake(int r, double at_us) {
    Rank& rank = ranks_[static_cast<size_t>(r)];
    if (rank.state != Rank::State::kIdle || rank.wake_us <= at_us) return;
    rank.wake_us = at_us;
    schedule(r, at_us);
  }
  void start(int r, double now) {
    Rank& rank = ranks_[static_cast<size_t>(r)];
    rank.wake_us = kNever;
    if (cores_.take(r))
      get_core(r, now);
    else
      rank.state = Rank::State::kQueued;
  }
  void get_core(int r, double now) {
    Rank& rank = ranks_[static_cast<size_t>(r)];
    const double ready = now + cores_.switch_us(r);
    rank.state = Rank::State::kRunning;
    rank.slice_us = ready;
    work(r, Activity::kSwitch, now, ready);
    schedule(r, ready);
  }
  void give_core(int r, double now) {
    ranks_[static_cast<size_t>(r)].state = Rank::State::kIdle;
    if (const int next = cores_.give(r); next >= 0) get_core(next, now);
  }
  bool slice_is_over(int r, double now) const {
    return cores_.contended(r) && now - ranks_[static_cast<size_t>(r)].slice_us > kSliceUs;
  }

  /// Runs the rank until another event is due first.
  void go_on(int r, double now) {
    Rank& rank = ranks_[static_cast<size_t>(r)];
    for (;;) {
      if (slice_is_over(r, now)) {
        rank.state = Rank::State::kQueued;
        return get_core(cores_.rotate(r), now);
      }
      if (Lane* lane = next_lane(rank, now)) {
        now = turn(r, *lane, now);
      } else {
        const double before = now;
        now = end_sweep(r, now);
        if (!rank.moved && now == before) return rest(r, now);
        rank.moved = false;
      }
      if (!events_.empty() && events_.top().at_us <= now) return schedule(r, now);
    }
  }
  Lane* next_lane(Rank& rank, double now) {
    for (; rank.cursor < rank.lanes; ++rank.cursor) {
      Lane& lane = lanes_[rank.first_lane + rank.cursor];
      if (lane.steps && lane.ready_us <= now) return &lane;
    }
    return nullptr;
  }
  void rest(int r, double now) {
    Rank& rank = ranks_[static_cast<size_t>(r)];
    double next = rank.notices.empty() ? kNever : rank.notices.top().at_us;
    for (size_t l = 0; l < rank.lanes; ++l) {
      const Lane& lane = lanes_[rank.first_lane + l];
      if (lane.steps) next = std::min(next, lane.ready_us);
    }
    give_core(r, now);
    if (next < kNever) wake(r, std::max(next, now));
  }

  // ---- A lane's turn: until it blocks or has signalled, put or released ----
  double turn(int r, Lane& lane, const double event_us) {
    Rank& rank = ranks_[static_cast<size_t>(r)];
    double now = event_us;
    while (lane.steps) {
      const CostStep& s = (*lane.steps)[lane.pc];
      const bool needs_event = s.kind == StepKind::kWait || s.kind == StepKind::kSent || s.kind == StepKind::kArrive ||
                               s.kind == StepKind::kPut;
      if (needs_event && now > event_us) {
        lane.ready_us = now;
        return now;  // the cursor stays: this lane goes on
      }
      if (needs_event && !ready(r, lane, s, now)) break;
      now = execute(r, lane, s, now);
      rank.moved = true;
      ++run_.steps;
      next_step(r, lane, now);
      if (s.kind == StepKind::kSignal || s.kind == StepKind::kPut || s.kind == StepKind::kRelease) break;
    }
    ++rank.cursor;
    return now;
  }
  void next_step(int r, Lane& lane, double now) {
    if (++lane.pc < lane.steps->size()) return;
    lane.pc = 0;
    double& end = run_.round_end_us[static_cast<size_t>(lane.round)];
    end = std::max(end, now);
    if (++lane.round < size_.rounds) return;
    lane.steps = nullptr;
    --ranks_[static_cast<size_t>(r)].lanes_left;
    ended(r, now);
  }
  void ended(int r, double now) {
    RankUse& use = run_.ranks[static_cast<size_t>(r)];
    use.end_us = std::max(use.end_us, now);
  }

  bool ready(int r, Lane& lane, const CostStep& s, double now) {
    const int64_t target = s.target.at(lane.round);
    if (s.kind == StepKind::kWait) {
      const double seen_after = s.rank == r ? 0 : model_.signal_us;
      return reached(lanes_[lane_index(s.rank, lane.channel, s.lane)].signals, target, r, lane, now, seen_after);
    }
    Link& link = links_[link_index(s.link, lane.channel)];
    if (s.kind == StepKind::kArrive) return reached(link.arrived, target, r, lane, now, 0);
    if (s.kind == StepKind::kSent) return reached(link.sent, target, r, lane, now, 0);
    return reached(link.released, target - program_.frame.put_slots + 1, r, lane, now, 0);  // a put needs its slot
  }
  bool reached(CountLog& log, int64_t target, int r, Lane& lane, double now, double seen_after) {
    if (target <= 0) return true;
    if (log.count() < target) {
      lane.ready_us = kNever;
      const auto at = static_cast<int32_t>(&lane - &lanes_[0]);
      log.wait({r, at}, target);
      return false;
    }
    const double at = log.reached_at(target) + seen_after;
    if (at <= now) return true;
    lane.ready_us = at;
    return false;
  }

  double execute(int r, Lane& lane, const CostStep& s, double now) {
    switch (s.kind) {
      case StepKind::kCopy:
      case StepKind::kReduce: {
        const double end = now + cost_.of(s, lane.channel, lane.round);
        work(r, s.work, now, end);
        if (size_.timeline && end > now) note(r, lane, s, now, end);
        return end;
      }
      case StepKind::kPut:
        ranks_[static_cast<size_t>(r)].posted.push_back(
            {static_cast<int32_t>(link_index(s.link, lane.channel)), lane.channel, lane.number,
             static_cast<int32_t>(lane.round), s.shard, s.chunk, cost_.put_bytes(s, lane.channel, lane.round)});
        return now;
      case StepKind::kRelease:
        ranks_[static_cast<size_t>(r)].released.push_back(static_cast<int32_t>(link_index(s.link, lane.channel)));
        return now;
      case StepKind::kSignal:
        lane.signals.push(now, [&](LaneAt at, double t) { unblock(at, t + (at.rank == r ? 0 : model_.signal_us)); });
        return now;
      default:
        return now;
    }
  }
  void unblock(LaneAt at, double when) {
    lanes_[static_cast<size_t>(at.lane)].ready_us = when;
    wake(at.rank, when);
  }
  void work(int r, Activity kind, double begin, double end) {
    run_.ranks[static_cast<size_t>(r)].busy_us[static_cast<size_t>(kind)] += end - begin;
  }
  void note(int r, const Lane& lane, const CostStep& s, double begin, double end) {
    run_.timeline.push_back(
        {begin, end, r, lane.channel, lane.number, -1, s.work, static_cast<int32_t>(lane.round), s.shard, s.chunk});
  }

  // ---- The network ----
  /// Hands over what was put and released, then takes what has come. Later than `now` if that was anything.
  double end_sweep(int r, double now) {
    Rank& rank = ranks_[static_cast<size_t>(r)];
    rank.cursor = 0;
    if (program_.ranks[static_cast<size_t>(r)].links == 0) return now;
    const bool something = rank.moved || !rank.posted.empty() || !rank.released.empty() ||
                           (!rank.notices.empty() && rank.notices.top().at_us <= now);
    if (!something) return now;
    work(r, Activity::kSweep, now, now + model_.sweep_us);
    now = hand_over(r, now + model_.sweep_us);
    while (!rank.notices.empty() && rank.notices.top().at_us <= now) now = take_notice(r, now);
    return now;
  }

  double hand_over(int r, double now) {
    Rank& rank = ranks_[static_cast<size_t>(r)];
    const double begin = now;
    std::stable_sort(rank.released.begin(), rank.released.end());
    for (size_t i = 0; i < rank.released.size();) {
      const int32_t id = rank.released[i];
      size_t n = i;
      while (n < rank.released.size() && rank.released[n] == id) ++n;
      now += model_.message_us;
      const int32_t src = program_.links[static_cast<size_t>(id) % program_.links.size()].src;
      send_notice(src, {now + model_.latency_us, 0, Notice::Kind::kCredit, id, static_cast<int32_t>(n - i), 0});
      i = n;
    }
    rank.released.clear();
    for (size_t i = 0; i < rank.posted.size(); ++i) {
      if (begins_batch(rank.posted, i)) {
        now += model_.doorbell_us;
        ++run_.doorbells;
      }
      now = send(r, rank.posted[i], now + model_.message_us);
    }
    rank.posted.clear();
    work(r, Activity::kPost, begin, now);
    return now;
  }
  /// Puts of one sweep to the same rank and channel share doorbells; they need not be neighbours in the list.
  bool begins_batch(const std::vector<Posted>& posted, size_t i) const {
    uint32_t before = 0;
    for (size_t j = 0; j < i; ++j)
      before += posted[j].channel == posted[i].channel && receiver(posted[j]) == receiver(posted[i]);
    return before % size_.batch == 0;
  }
  int32_t receiver(const Posted& p) const {
    return program_.links[static_cast<size_t>(p.link) % program_.links.size()].dst_rank;
  }
  double send(int r, const Posted& p, double now) {
    now += cost_.sending(p.bytes);
    const int link = static_cast<int>(static_cast<size_t>(p.link) % program_.links.size());
    const Wire::Transfer t = wire_.send(link, p.channel, p.bytes, now);
    run_.wire_first_us = std::min(run_.wire_first_us, t.begin_us);
    run_.wire_last_us = std::max(run_.wire_last_us, t.end_us);
    ++run_.puts;
    if (size_.timeline)
      run_.timeline.push_back({t.begin_us, t.end_us, r, p.channel, p.lane, static_cast<int16_t>(t.rail),
                               Activity::kPost, p.round, p.shard, p.chunk});
    send_notice(program_.links[static_cast<size_t>(link)].dst,
                {t.arrived_us, 0, Notice::Kind::kArrived, p.link, 0, p.bytes});
    if (model_.sent_when_handed_over) {
      count(links_[static_cast<size_t>(p.link)].sent, now);
    } else {
      ++ranks_[static_cast<size_t>(r)].unsent;
      send_notice(r, {t.arrived_us + model_.latency_us, 0, Notice::Kind::kSent, p.link, 0, 0});
    }
    return now;
  }
  void send_notice(int32_t to, Notice notice) {
    notice.order = ++tokens_;
    ranks_[static_cast<size_t>(to)].notices.push(notice);
    wake(to, notice.at_us);
  }
  double take_notice(int r, double now) {
    Rank& rank = ranks_[static_cast<size_t>(r)];
    const Notice notice = rank.notices.top();
    rank.notices.pop();
    const double end = now + model_.completion_us + cost_.receiving(notice.bytes);
    work(r, Activity::kNotice, now, end);
    Link& link = links_[static_cast<size_t>(notice.link)];
    switch (notice.kind) {
      case Notice::Kind::kArrived:
        count(link.arrived, end);
        break;
      case Notice::Kind::kSent:
        --rank.unsent;
        count(link.sent, end);
        break;
      case Notice::Kind::kCredit:
        for (int i = 0; i < notice.credits; ++i) count(link.released, end);
        break;
    }
    if (notice.kind != Notice::Kind::kCredit && rank.lanes_left == 0) ended(r, end);
    rank.moved = true;
    return end;
  }
  void count(CountLog& log, double at_us) {
    log.push(at_us, [&](LaneAt at, double t) { unblock(at, t); });
  }

  void finish() {
    for (size_t r = 0; r < ranks_.size(); ++r) {
      run_.stuck |= ranks_[r].lanes_left > 0;
      run_.time_us = std::max(run_.time_us, run_.ranks[r].end_us);
    }
    run_.time_us += model_.call_us;
    run_.wire_busy_us = wire_.busiest_us();
    run_.retransmitted_share = wire_.retransmitted_share();
    if (run_.puts == 0) run_.wire_first_us = 0;
  }

  const CostProgram& program_;
  const NetworkModel& model_;
  const SimulatedSize& size_;
  int channels_;
  StepCost cost_;
  Wire wire_;
  Cores cores_;
  std::vector<Rank> ranks_;
  std::vector<size_t> lanes_per_channel_;  // by rank
  std::vector<Lane> lanes_;
  std::vector<Link> links_;  // [channel][link]
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  uint64_t tokens_ = 0;
  SimulatedRun run_;
};

}  // namespace

double RankUse::total_busy_us() const {
  double sum = 0;
  for (double t : busy_us) sum += t;
  return sum;
}

SimulatedRun simulate(const CostProgram& program, const NetworkModel& model, const SimulatedSize& size) {
  return Run(program, model, size).run();
}

}  // namespace twohop
