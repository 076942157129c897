// See direct.hpp.
#include "collectives/plan/direct.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>

namespace twohop {
namespace {

bool same_place(const Ref& a, const Ref& b) {
  return a.space == Space::kWindow && b.space == Space::kWindow && a.owner == b.owner && a.area == b.area &&
         a.index == b.index;
}

bool writes(const Step& s, const Ref& place) {
  return (s.kind == StepKind::kCopy || s.kind == StepKind::kReduce) && same_place(s.dst, place);
}

/// Position of a step in its program.
struct At {
  size_t lane = 0, step = 0;
};

class Rewriter {
 public:
  Rewriter(Program program, int rank, int chunks) : program_(std::move(program)), rank_(rank), chunks_(chunks) {}

  Program run() {
    for (size_t lane = 0; lane < program_.lanes.size(); ++lane)
      for (size_t i = 0; i < program_.lanes[lane].size(); ++i)
        if (is_staging(program_.lanes[lane][i])) read_directly({lane, i});
    drop_marked();
    for (const Step& put : puts_) wait_before_overwriting(put);
    return std::move(program_);
  }

 private:
  /// Copies this rank's input, and nothing else, into its window.
  bool is_staging(const Step& s) const {
    const bool moves = s.kind == StepKind::kCopy || (s.kind == StepKind::kReduce && !s.final);
    return moves && s.dst.space == Space::kWindow && s.dst.owner == rank_ && s.srcs.size() == 1 &&
           s.srcs[0].space == Space::kInput;
  }

  /// Reads of the slot go to the input instead, until a step puts something else there. Those steps are in one lane;
  /// reads in other lanes then come after them.
  void read_directly(At staging) {
    const Step copy = program_.lanes[staging.lane][staging.step];
    const auto folding = lane_that_rewrites(copy.dst, staging);
    if (folding == kSeveral) return;
    for (size_t lane = 0; lane < program_.lanes.size(); ++lane) {
      if (folding != kNone && folding != lane) continue;
      for (Step& s : program_.lanes[lane]) {
        redirect(s, copy.dst, copy.srcs[0]);
        if (folding != kNone && writes(s, copy.dst)) break;
      }
    }
    dropped_.push_back(staging);
  }

  static constexpr size_t kNone = SIZE_MAX, kSeveral = SIZE_MAX - 1;
  size_t lane_that_rewrites(const Ref& place, At staging) const {
    size_t found = kNone;
    for (size_t lane = 0; lane < program_.lanes.size(); ++lane)
      for (size_t i = 0; i < program_.lanes[lane].size(); ++i) {
        if (!writes(program_.lanes[lane][i], place) || (lane == staging.lane && i == staging.step)) continue;
        if (found != kNone && found != lane) return kSeveral;
        found = lane;
      }
    return found;
  }

  void redirect(Step& s, const Ref& place, const Ref& input) {
    bool some = false;
    for (Ref& src : s.srcs) {
      if (!same_place(src, place)) continue;
      src = input;
      some = true;
    }
    if (!some || s.kind != StepKind::kPut) return;
    std::erase_if(puts_, [&](const Step& p) { return p.link == s.link && p.target == s.target; });
    puts_.push_back(s);
  }

  void drop_marked() {
    for (size_t lane = 0; lane < program_.lanes.size(); ++lane) {
      std::vector<Step> kept;
      for (size_t i = 0; i < program_.lanes[lane].size(); ++i) {
        const bool drop = std::any_of(dropped_.begin(), dropped_.end(),
                                      [&](const At& at) { return at.lane == lane && at.step == i; });
        if (!drop) kept.push_back(std::move(program_.lanes[lane][i]));
      }
      program_.lanes[lane] = std::move(kept);
    }
  }

  bool sends_chunk(const Step& put, const Step& s) const {
    if (s.shard != put.shard) return false;
    for (size_t i = 0; i < put.srcs.size(); ++i)
      if (put.srcs[i].space == Space::kInput && (put.chunk + i) % static_cast<size_t>(chunks_) == s.chunk) return true;
    return false;
  }

  void wait_before_overwriting(const Step& put) {
    Step sent;
    sent.kind = StepKind::kSent;
    sent.link = put.link;
    sent.target = {put.target.per_round, put.target.offset + 1};
    for (auto& lane : program_.lanes)
      for (size_t i = 0; i < lane.size(); ++i) {
        const bool output = (lane[i].kind == StepKind::kCopy || lane[i].kind == StepKind::kReduce) &&
                            lane[i].dst.space == Space::kOutput;
        if (!output || !sends_chunk(put, lane[i])) continue;
        lane.insert(lane.begin() + static_cast<std::ptrdiff_t>(i), sent);
        ++i;
      }
  }

  Program program_;
  int rank_, chunks_;
  std::vector<At> dropped_;
  std::vector<Step> puts_;  // that read the input now
};

/// By itself, or by others in the place of its window. What only stages it does not count.
bool reads_input_of(int rank, const Step& s, const Ref& src) {
  if (src.raw_of != rank || src.space == Space::kOutput) return false;
  return src.space == Space::kWindow || s.kind != StepKind::kCopy || s.dst.space != Space::kWindow;
}

}  // namespace

Program without_staging(Program program, int rank, int chunks) {
  return Rewriter(std::move(program), rank, chunks).run();
}

bool reads_inputs_once(const Algorithm& algorithm, const Request& request, int rank) {
  std::set<std::pair<int, uint32_t>> read;  // shard, chunk
  for (int peer : request.cluster->peers_of(rank)) {
    const Program program = algorithm.program(request, peer);
    for (const auto& lane : program.lanes)
      for (const Step& s : lane)
        for (const Ref& src : s.srcs)
          if (reads_input_of(rank, s, src) && !read.emplace(s.shard, s.chunk).second) return false;
  }
  return true;
}

}  // namespace twohop
