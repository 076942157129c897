// Builder: short names for the steps, so that an algorithm's file reads as its description.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "collectives/plan/schedule.hpp"

namespace twohop {

/// A position in a sequence that runs on over the rounds, `per_round` items each: linear({n, i}) for i outside 0..n-1
/// too.
constexpr Linear linear(int64_t per_round, int64_t offset) {
  return {per_round, offset};
}

/// Item t of a sequence of `items` items a round as (round, item in it); t may lie before the first round.
struct ItemOfRound {
  int64_t round, item;
};
constexpr ItemOfRound split(int64_t t, int64_t items) {
  const int64_t round = t >= 0 ? t / items : -((-t + items - 1) / items);
  return {round, t - round * items};
}

/// The same for a position known as a function of an item t of a round of `items` items, with t possibly before the
/// round.
template <class Pos>
Linear at_item(int64_t t, int64_t items, int64_t per_round, Pos pos_in_round) {
  const auto [round, item] = split(t, items);
  return {per_round, round * per_round + pos_in_round(item)};
}

struct ChunkId {
  int shard = 0, index = 0;
};

inline Ref input(int raw_of) {
  Ref r;
  r.space = Space::kInput;
  r.owner = r.raw_of = raw_of;
  return r;
}
inline Ref output(int self) {
  Ref r;
  r.space = Space::kOutput;
  r.owner = self;
  return r;
}
inline Ref window(int owner, int area, Linear slot, int raw_of = -1) {
  Ref r;
  r.space = Space::kWindow;
  r.owner = owner;
  r.area = static_cast<uint16_t>(area);
  r.index = slot;
  r.raw_of = raw_of;
  return r;
}
/// Chunk `part` of a put of rank `from`.
inline Ref inbox(int owner, int from, int tag, Linear put, int part) {
  Ref r;
  r.space = Space::kInbox;
  r.owner = owner;
  r.from = from;
  r.area = static_cast<uint16_t>(tag);
  r.part = static_cast<uint16_t>(part);
  r.index = put;
  return r;
}

/// Appends steps to one lane. A wait for no more than the lane has waited for earlier in the round is left out.
class LaneBuilder {
 public:
  LaneBuilder(Program& program, size_t lane) : program_(program), lane_(lane) {
    if (program.lanes.size() <= lane) program.lanes.resize(lane + 1);
  }
  void copy(ChunkId c, Ref dst, Ref src) { add(StepKind::kCopy, c, dst, {src}); }
  void reduce(ChunkId c, Ref dst, std::vector<Ref> srcs, bool final) {
    add(StepKind::kReduce, c, dst, std::move(srcs)).final = final;
  }
  void put(ChunkId first, int link, Linear number, std::vector<Ref> srcs) {
    link_step(StepKind::kPut, link, number);
    Step& s = last();
    s.shard = static_cast<uint16_t>(first.shard);
    s.chunk = static_cast<uint32_t>(first.index);
    s.srcs = std::move(srcs);
  }
  void sent(int link, Linear count) {
    if (is_news(StepKind::kSent, link, 0, count)) link_step(StepKind::kSent, link, count);
  }
  void arrive(int link, Linear count) {
    if (is_news(StepKind::kArrive, link, 0, count)) link_step(StepKind::kArrive, link, count);
  }
  void release(int link, Linear number) { link_step(StepKind::kRelease, link, number); }
  void signal() { add(StepKind::kSignal, {}, {}, {}); }
  void wait(int rank, int lane, Linear count) {
    if (!is_news(StepKind::kWait, rank, lane, count)) return;
    Step& s = add(StepKind::kWait, {}, {}, {});
    s.rank = rank;
    s.lane = static_cast<uint16_t>(lane);
    s.target = count;
  }

 private:
  bool is_news(StepKind kind, int of, int lane, Linear count) {
    const auto [it, first] = waited_.try_emplace(std::tuple{kind, of, lane, count.per_round}, count.offset);
    if (first) return true;
    if (it->second >= count.offset) return false;
    it->second = count.offset;
    return true;
  }
  Step& last() { return program_.lanes[lane_].back(); }
  Step& add(StepKind kind, ChunkId c, Ref dst, std::vector<Ref> srcs) {
    Step s;
    s.kind = kind;
    s.shard = static_cast<uint16_t>(c.shard);
    s.chunk = static_cast<uint32_t>(c.index);
    s.dst = dst;
    s.srcs = std::move(srcs);
    program_.lanes[lane_].push_back(std::move(s));
    return last();
  }
  void link_step(StepKind kind, int link, Linear target) {
    Step& s = add(kind, {}, {}, {});
    s.link = static_cast<uint16_t>(link);
    s.target = target;
  }

  Program& program_;
  size_t lane_;
  std::map<std::tuple<StepKind, int, int, int64_t>, int64_t> waited_;  // the highest offset
};

/// Adds a link end to a program and returns its index.
inline int add_link(std::vector<LinkEnd>& ends, int tag, int peer) {
  ends.push_back({static_cast<uint16_t>(tag), peer});
  return static_cast<int>(ends.size()) - 1;
}

}  // namespace twohop
