// The checker catches what it is for: one fault is planted in a program that is right, and must be found by its name.
#include <gtest/gtest.h>

#include <algorithm>

#include "collectives/plan/builder.hpp"
#include "collectives/plan/two_hop.hpp"
#include "shapes.hpp"

namespace twohop {
namespace {

using enum FaultKind;
using enum StepKind;

// Lanes of flat_ring.cpp.
constexpr size_t kFlatRing = 0, kFlatGather = 1, kFlatCredit = 2;
// Lanes of two_hop.hpp for the first shard that a rank owns.
constexpr size_t kRing = two_hop::kFirstShardLane, kGather = kRing + 1, kCredit = kRing + 2;

using Lane = std::vector<Step>;

/// Two nodes of two ranks; the fault goes into rank 1's program, which ends its node in the flat ring.
class Planted {
 public:
  Planted(const char* algorithm, size_t lane) : algorithm_(algorithm), lane_(lane) {}
  /// One round, and so many slots that none is used twice: other faults cannot come first.
  Planted& once() {
    rounds_ = 1;
    depths_ = {1, 4, 4};
    return *this;
  }
  Planted& all_ranks() {
    all_ranks_ = true;
    return *this;
  }
  FaultKind found(const std::function<void(Lane&)>& plant) const {
    const Cluster cluster = cluster_of({2, 2});
    const CheckedCall call{find_algorithm(algorithm_), Collective::kAllReduce, 0, depths_, rounds_};
    CheckOptions options;
    options.mutate = [&](int, int rank, Program& p) {
      if (all_ranks_ || rank == 1) plant(p.lanes[lane_]);
    };
    const CheckReport whole = check(cluster, {call}), report = check(cluster, {call}, options);
    EXPECT_FALSE(whole.fault) << text(whole);
    if (!report.fault) ADD_FAILURE() << "nothing was found";
    return report.fault ? report.fault->kind : kProtocol;
  }

 private:
  const char* algorithm_;
  size_t lane_;
  int rounds_ = 6;
  Depths depths_{1, 2, 2};
  bool all_ranks_ = false;
};

/// The n-th step of a kind.
Lane::iterator nth(Lane& lane, StepKind kind, int n = 0) {
  for (auto it = lane.begin(); it != lane.end(); ++it)
    if (it->kind == kind && n-- == 0) return it;
  ADD_FAILURE() << "no such " << step_name(kind);
  return lane.begin();
}
void remove(Lane& lane, StepKind kind, int n = 0) {
  lane.erase(nth(lane, kind, n));
}
void move(Lane& lane, Lane::iterator from, Lane::iterator before) {
  const Step step = *from;
  const auto at = before - lane.begin(), was = from - lane.begin();
  lane.insert(before, step);
  lane.erase(lane.begin() + was + (at <= was ? 1 : 0));
}
/// The wait for a slot's last use: its target lies in an earlier round.
Lane::iterator slot_wait(Lane& lane, StepKind kind) {
  const auto it = std::find_if(lane.begin(), lane.end(), [&](const Step& s) {
    return s.kind == kind && s.target.offset <= 0 && s.target.per_round > 0;
  });
  EXPECT_NE(it, lane.end());
  return it;
}
void read_a_source_twice(Lane& lane) {
  nth(lane, kReduce, 1)->srcs.assign(2, nth(lane, kReduce, 1)->srcs[0]);
}
void forget_a_source(Lane& lane) {
  nth(lane, kReduce, 1)->srcs.pop_back();
}
void repeat(Lane& lane, StepKind kind) {
  lane.insert(nth(lane, kind), *nth(lane, kind));
}
/// Every step of the kind gets the number after its own.
void renumber(Lane& lane, StepKind kind) {
  for (Step& s : lane)
    if (s.kind == kind) ++s.target.offset;
}

TEST(PlantedFault, ContributionDoubled) {
  EXPECT_EQ(Planted("two-hop", two_hop::kReduce).found(read_a_source_twice), kContributionDoubled);
  EXPECT_EQ(Planted("flat", kFlatRing).found(read_a_source_twice), kContributionDoubled);
  EXPECT_EQ(Planted("flat-naive", kFlatRing).found(read_a_source_twice), kContributionDoubled);
}

TEST(PlantedFault, ContributionMissing) {
  EXPECT_EQ(Planted("two-hop", two_hop::kReduce).once().found(forget_a_source), kContributionMissing);
  EXPECT_EQ(Planted("flat", kFlatRing).once().found(forget_a_source), kContributionMissing);
  EXPECT_EQ(Planted("flat-naive", kFlatRing).once().found(forget_a_source), kContributionMissing);
}

TEST(PlantedFault, OutputLeftOut) {
  const auto forget = [](Lane& lane) {
    lane.erase(std::find_if(lane.begin(), lane.end(), [](const Step& s) { return s.dst.space == Space::kOutput; }));
  };
  EXPECT_EQ(Planted("two-hop", two_hop::kSpread).once().found(forget), kContributionMissing);
  EXPECT_EQ(Planted("flat", kFlatGather).once().found(forget), kContributionMissing);
}

TEST(PlantedFault, OverwrittenBeforeItIsRead) {
  const auto no_wait = [](Lane& lane) { lane.erase(slot_wait(lane, kWait)); };
  const auto one_too_low = [](Lane& lane) { --slot_wait(lane, kWait)->target.offset; };
  EXPECT_EQ(Planted("two-hop", two_hop::kStage).found(no_wait), kOverwrittenBeforeRead);
  EXPECT_EQ(Planted("two-hop", two_hop::kStage).found(one_too_low), kOverwrittenBeforeRead);
  EXPECT_EQ(Planted("two-hop", two_hop::kReduce).found(no_wait), kOverwrittenBeforeRead);
  const auto first_rank = [](const std::function<void(Lane&)>& plant) {
    CheckOptions options;
    options.mutate = [plant](int, int rank, Program& p) {
      if (rank == 0) plant(p.lanes[kFlatRing]);
    };
    const CheckReport r =
        check(cluster_of({2, 2}), {{find_algorithm("flat"), Collective::kAllReduce, 0, {1, 2, 2}, 6}}, options);
    return r.fault ? r.fault->kind : kProtocol;
  };
  EXPECT_EQ(first_rank(no_wait), kOverwrittenBeforeRead);  // rank 1 reads rank 0's window
  EXPECT_EQ(first_rank(one_too_low), kOverwrittenBeforeRead);
}

TEST(PlantedFault, SourceOverwrittenBeforeSent) {
  const auto no_sent = [](Lane& lane) { remove(lane, kSent); };
  const auto one_too_low = [](Lane& lane) { --nth(lane, kSent)->target.offset; };
  EXPECT_EQ(Planted("two-hop", two_hop::kReduce).found(no_sent), kOverwrittenBeforeSent);
  EXPECT_EQ(Planted("two-hop", two_hop::kReduce).found(one_too_low), kOverwrittenBeforeSent);
  EXPECT_EQ(Planted("flat", kFlatRing).found(no_sent), kOverwrittenBeforeSent);
  EXPECT_EQ(Planted("flat", kFlatRing).found(one_too_low), kOverwrittenBeforeSent);
}

TEST(PlantedFault, EarlyRelease) {
  const auto before_all_waits = [](Lane& lane) { move(lane, nth(lane, kRelease), lane.begin()); };
  const auto after_arrival = [](Lane& lane) { move(lane, nth(lane, kRelease), nth(lane, kArrive) + 1); };
  EXPECT_EQ(Planted("two-hop", kRing).found(before_all_waits), kEarlyRelease);
  EXPECT_EQ(Planted("two-hop", kRing).found(after_arrival), kEarlyRelease);
  EXPECT_EQ(Planted("two-hop", kCredit).found(before_all_waits), kEarlyRelease);
  EXPECT_EQ(Planted("two-hop", kCredit).found([](Lane& lane) { remove(lane, kWait); }), kEarlyRelease);
  EXPECT_EQ(Planted("flat-naive", kFlatRing).found(after_arrival), kEarlyRelease);
  EXPECT_EQ(Planted("flat-naive", kFlatCredit).found(before_all_waits), kEarlyRelease);
}

TEST(PlantedFault, SwappedWait) {
  const auto exchanged = [](Lane& lane) { std::swap(*nth(lane, kWait, 0), *nth(lane, kWait, 1)); };
  const auto after_its_reader = [](Lane& lane) { move(lane, nth(lane, kWait), nth(lane, kCopy) + 1); };
  const auto arrive_last = [](Lane& lane) { move(lane, nth(lane, kArrive), lane.end()); };
  EXPECT_EQ(Planted("two-hop", two_hop::kSpread).found(exchanged), kReadTooEarly);
  EXPECT_EQ(Planted("two-hop", two_hop::kSpread).found(after_its_reader), kReadTooEarly);
  EXPECT_EQ(Planted("two-hop", kRing).found(arrive_last), kReadTooEarly);
  EXPECT_EQ(Planted("flat", kFlatGather).found(after_its_reader), kReadTooEarly);
  EXPECT_EQ(Planted("flat-naive", kFlatRing).found(arrive_last), kReadTooEarly);
}

TEST(PlantedFault, CyclicWait) {
  // Stage waits for what reduce can only do once stage has gone on, here or at the other rank; the same between the two
  // lanes of a flat ring.
  const auto wait_for_the_end = [](Lane& lane) {
    Step wait = *nth(lane, kWait);
    wait.target.offset = wait.target.per_round;
    lane.insert(lane.begin(), wait);
  };
  EXPECT_EQ(Planted("two-hop", two_hop::kStage).all_ranks().found(wait_for_the_end), kDeadlock);
  EXPECT_EQ(Planted("two-hop", two_hop::kStage).found(wait_for_the_end), kDeadlock);
  EXPECT_EQ(Planted("flat", kFlatRing).all_ranks().found(wait_for_the_end), kDeadlock);
}

TEST(PlantedFault, ReleaseForgottenIsADeadlock) {
  const auto no_release = [](Lane& lane) {
    lane.erase(std::remove_if(lane.begin(), lane.end(), [](const Step& s) { return s.kind == kRelease; }), lane.end());
  };
  EXPECT_EQ(Planted("two-hop", kCredit).found(no_release), kDeadlock);
  EXPECT_EQ(Planted("flat-naive", kFlatCredit).found(no_release), kDeadlock);
  EXPECT_EQ(Planted("two-hop", kCredit).once().found(no_release), kProtocol);  // a later call would wait for it
}

TEST(PlantedFault, DeadWrite) {
  EXPECT_EQ(Planted("two-hop", two_hop::kStage).found([](Lane& lane) { repeat(lane, kCopy); }), kDeadWrite);
  EXPECT_EQ(Planted("flat", kFlatRing).found([](Lane& lane) { repeat(lane, kReduce); }), kDeadWrite);
}

TEST(PlantedFault, PutOrReleaseOutOfOrder) {
  EXPECT_EQ(Planted("two-hop", kRing).found([](Lane& lane) { renumber(lane, kPut); }), kProtocol);
  EXPECT_EQ(Planted("two-hop", kGather).found([](Lane& lane) { renumber(lane, kPut); }), kProtocol);
  EXPECT_EQ(Planted("two-hop", kCredit).found([](Lane& lane) { renumber(lane, kRelease); }), kProtocol);
  EXPECT_EQ(Planted("flat", kFlatRing).found([](Lane& lane) { renumber(lane, kPut); }), kProtocol);
  EXPECT_EQ(Planted("flat-naive", kFlatCredit).found([](Lane& lane) { renumber(lane, kRelease); }), kProtocol);
}

TEST(PlantedFault, NamesWhatIsNotThere) {
  EXPECT_EQ(Planted("two-hop", two_hop::kSpread).found([](Lane& l) { nth(l, kWait)->rank = 3; }), kProtocol);
  EXPECT_EQ(Planted("two-hop", two_hop::kSpread).found([](Lane& l) { nth(l, kWait)->lane = 99; }), kProtocol);
  EXPECT_EQ(Planted("two-hop", kRing).found([](Lane& l) { nth(l, kPut)->link = 9; }), kProtocol);
  EXPECT_EQ(Planted("two-hop", kRing).found([](Lane& l) { nth(l, kArrive)->link = 9; }), kProtocol);
  EXPECT_EQ(Planted("two-hop", two_hop::kStage).found([](Lane& l) { nth(l, kCopy)->dst.area = 9; }), kProtocol);
  EXPECT_EQ(Planted("two-hop", two_hop::kStage).found([](Lane& l) { nth(l, kCopy)->dst.owner = 2; }), kProtocol);
  EXPECT_EQ(Planted("two-hop", two_hop::kStage).found([](Lane& l) { nth(l, kCopy)->srcs[0].owner = 0; }), kProtocol);
  EXPECT_EQ(Planted("two-hop", two_hop::kStage).found([](Lane& l) { nth(l, kCopy)->shard = 9; }), kProtocol);
  EXPECT_EQ(Planted("two-hop", two_hop::kStage).found([](Lane& l) { nth(l, kCopy)->srcs.clear(); }), kProtocol);
  EXPECT_EQ(Planted("two-hop", two_hop::kStage).found([](Lane& l) { nth(l, kCopy)->dst.index.offset = -9; }),
            kProtocol);
}

TEST(PlantedFault, ScaledTwiceOrNotAtAll) {
  const auto not_raw = [](Lane& lane) { nth(lane, kReduce)->srcs[0].raw_of = -1; };
  const auto never_final = [](Lane& lane) {
    for (Step& s : lane) s.final = false;
  };
  const auto always_final = [](Lane& lane) {
    for (Step& s : lane) s.final = true;
  };
  EXPECT_EQ(Planted("two-hop", two_hop::kReduce).found(not_raw), kScaling);
  EXPECT_EQ(Planted("two-hop", kRing).found(never_final), kScaling);
  EXPECT_EQ(Planted("two-hop", two_hop::kReduce).found(always_final), kScaling);
  EXPECT_EQ(Planted("flat", kFlatRing).found(not_raw), kScaling);
  EXPECT_EQ(Planted("flat", kFlatRing).found(never_final), kScaling);
  EXPECT_EQ(Planted("flat", kFlatRing).found(always_final), kScaling);
}

TEST(PlantedFault, OperandsOutOfRankOrder) {
  const auto swap = [](Lane& lane) { std::swap(nth(lane, kReduce, 1)->srcs[0], nth(lane, kReduce, 1)->srcs[1]); };
  EXPECT_EQ(Planted("two-hop", two_hop::kReduce).found(swap), kOperandOrder);
  EXPECT_EQ(Planted("flat", kFlatRing).found(swap), kOperandOrder);
}

/// Three ranks of one node that all fold everything themselves; rank 2 may round once more than the others.
Program everybody_reduces(int me, bool in_two_steps) {
  Program p;
  LaneBuilder stage(p, 0), fold(p, 1);
  const auto staged = [](int rank, int chunk) { return window(rank, 0, linear(3, chunk), rank); };
  for (int c = 0; c < 3; ++c) {
    stage.copy({0, c}, staged(me, c), input(me));
    stage.signal();
    for (int rank = 0; rank < 3; ++rank) fold.wait(rank, 0, linear(3, c + 1));
    if (in_two_steps) {
      const Ref partial = window(me, 1, linear(3, c));
      fold.reduce({0, c}, partial, {staged(0, c), staged(1, c)}, false);
      fold.reduce({0, c}, output(me), {partial, staged(2, c)}, true);
    } else {
      fold.reduce({0, c}, output(me), {staged(0, c), staged(1, c), staged(2, c)}, true);
    }
  }
  return p;
}

TEST(PlantedFault, UnequalBits) {
  for (bool planted : {false, true}) {
    CheckOptions options;
    options.mutate = [&](int, int rank, Program& p) { p = everybody_reduces(rank, planted && rank == 2); };
    const CheckReport r =
        check(cluster_of({3}), {{find_algorithm("flat"), Collective::kAllReduce, 0, {1, 4, 4}, 1}}, options);
    ASSERT_EQ(r.fault.has_value(), planted) << text(r);
    EXPECT_TRUE(!planted || r.fault->kind == kUnequalBits) << text(r);
  }
}

std::optional<FaultKind> found_unordered(const std::vector<int>& sizes, const std::vector<CheckedCall>& calls) {
  CheckOptions unordered;
  unordered.order_calls = false;
  EXPECT_FALSE(check(cluster_of(sizes), calls).fault);
  const CheckReport r = check(cluster_of(sizes), calls, unordered);
  return r.fault ? std::optional(r.fault->kind) : std::nullopt;
}

TEST(PlantedFault, CallOvertakesTheOneBeforeTheLastInTheInbox) {
  for (const Algorithm& outer : algorithms())
    for (const Algorithm& middle : algorithms()) {
      const Cluster cluster = cluster_of({2, 2});
      if (!outer.supports(cluster, Collective::kAllReduce) || !middle.supports(cluster, Collective::kAllReduce))
        continue;
      const CheckedCall a{&outer, Collective::kAllReduce, 0, {1, 4, 4}, 1}, b{&middle, a.collective, 0, a.depths, 1};
      EXPECT_EQ(found_unordered({2, 2}, {a, b, a}), kCallOvertaken) << outer.name << ", " << middle.name;
    }
}

TEST(PlantedFault, CallOvertakesTheOneBeforeTheLastInTheWindow) {
  const CheckedCall broadcast{find_algorithm("two-hop"), Collective::kBroadcast, 0, {1, 4, 4}, 1};
  EXPECT_EQ(found_unordered({2}, {broadcast, broadcast, broadcast}), kCallOvertaken);
  EXPECT_EQ(found_unordered({2}, {broadcast, broadcast}), std::nullopt);  // each call has a half of its own
}

}  // namespace
}  // namespace twohop
