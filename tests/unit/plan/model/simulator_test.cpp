// Does the simulator give the times that one works out by hand, and does time go the right way when the model changes?
#include "collectives/plan/model/simulator.hpp"

#include <gtest/gtest.h>

#include "collectives/plan/builder.hpp"
#include "unit/plan/model/model_cases.hpp"

namespace twohop {
namespace {

// ---- An algorithm of its own: rank 0 copies its input and puts it to rank 1, which copies it to its output. ----
bool fits(const Cluster& c, Collective) {
  return c.nranks() == 2;
}
Frame parcel_frame(const Request& r) {
  Frame f;
  f.collective = r.collective;
  return f;
}
Program parcel(const Request&, int rank) {
  Program p;
  LaneBuilder lane(p, 0);
  if (rank == 0) {
    add_link(p.out, 0, 1);
    lane.copy({0, 0}, window(0, 0, linear(1, 0)), input(0));
    lane.put({0, 0}, 0, linear(1, 0), {window(0, 0, linear(1, 0))});
  } else {
    add_link(p.in, 0, 0);
    lane.arrive(0, linear(1, 1));
    lane.copy({0, 0}, output(1), inbox(1, 0, 0, linear(1, 0), 0));
    lane.release(0, linear(1, 0));
  }
  return p;
}
double nothing(const Request&, int) {
  return 0;
}
constexpr Algorithm kParcel{"parcel", fits, parcel_frame, parcel, nothing};

NetworkModel parcel_model() {
  NetworkModel m = only_the_wire(2);  // 2000 bytes a us
  m.copy_gbytes_per_s = 1;            // 1000 bytes a us
  m.cache_bytes = 1e12;
  m.step_us = 0.5;
  m.sweep_us = 0.25;
  m.message_us = 2;
  m.doorbell_us = 4;
  m.completion_us = 8;
  m.latency_us = 100;
  m.call_us = 1000;
  m.sent_when_handed_over = true;
  return m;
}
double parcel_us(const NetworkModel& model, uint64_t bytes) {
  Predictor p(even_cluster(2, 1), model, {});
  return p.predict({&kParcel, 128 << 10, 1, 64}, Collective::kAllReduce, bytes).time_us;
}

TEST(Simulator, AddsUpWhatOneParcelCosts) {
  const double copy = 0.5 + 16, hand_over = 0.25 + 2 + 4, wire = 100 + 8, notice = 0.25 + 8;
  EXPECT_DOUBLE_EQ(parcel_us(parcel_model(), 16'000), copy + hand_over + wire + notice + copy + 1000);
}

TEST(Simulator, CountsHeadersAndCopiesOfTheTransport) {
  NetworkModel m = parcel_model();
  const double plain = parcel_us(m, 16'000);
  m.header_bytes = 2000;
  EXPECT_DOUBLE_EQ(parcel_us(m, 16'000), plain + 1);
  m.send_gbytes_per_s = 16;
  m.receive_gbytes_per_s = 8;
  EXPECT_DOUBLE_EQ(parcel_us(m, 16'000), plain + 1 + 1 + 2);
}

TEST(Simulator, TakesUserBytesFromMemoryWhenTheyExceedTheCache) {
  NetworkModel m = parcel_model();
  m.memory_gbytes_per_s = 0.1;
  const double plain = parcel_us(m, 16'000);
  m.cache_bytes = 16'000;  // of 32,000 in two buffers: half of them
  EXPECT_DOUBLE_EQ(parcel_us(m, 16'000), plain + 2 * 0.5 * (160 - 16));
}

TEST(Simulator, MakesTheSenderWaitForASlot) {
  // 8 rounds through the usual 4 slots: the fifth put waits for the credit of the first.
  NetworkModel m = only_the_wire(1);
  m.latency_us = 1000;
  m.sent_when_handed_over = true;
  Predictor p(even_cluster(2, 1), m, {});
  const auto run = p.predict({&kParcel, 1000 / 128 * 128, 1, 64}, Collective::kAllReduce, 8 * 896);
  ASSERT_EQ(run.rounds, 8);
  // 4 puts at once; their credits come back after 2000 us, one put's time apart; then the other 4.
  EXPECT_NEAR(run.time_us, 3000 + 5 * 0.896, 0.01);
}

TEST(Simulator, IsStuckWhereTheProgramsAre) {
  static const auto deaf = [](const Request&, int rank) {
    Program p;
    LaneBuilder(p, 0).wait(1 - rank, 1, linear(1, 1));
    p.lanes.resize(2);
    return p;
  };
  static const Algorithm kDeaf{"deaf", fits, parcel_frame, deaf, nothing};
  Predictor p(even_cluster(1, 2), NetworkModel(), {});
  EXPECT_TRUE(p.predict({&kDeaf, 128, 1, 64}, Collective::kAllReduce, 8).run.stuck);
}

TEST(Simulator, LetsTheSenderWaitUntilItsSourceIsFree) {
  NetworkModel m = parcel_model();
  m.sent_when_handed_over = false;
  const double copy = 0.5 + 16, hand_over = 0.25 + 2 + 4, there_and_back = 100 + 8 + 100, notice = 0.25 + 8;
  EXPECT_DOUBLE_EQ(parcel_us(m, 16'000), copy + hand_over + there_and_back + notice + 1000);
}

// ---- Formulas ----
TEST(Simulator, GivesTheFormulaOfTheRingWhereOnlyTheWireCosts) {
  for (int nodes : {2, 3, 4, 7, 16}) {
    Predictor p(even_cluster(nodes, 1), only_the_wire(1), {});
    const auto bytes = static_cast<uint64_t>(nodes) * 128 * 100;
    const auto run = p.predict({find_algorithm("two-hop"), 1 << 20, 1, 64}, Collective::kAllReduce, bytes);
    ASSERT_EQ(run.rounds, 1);
    const double expected = 2.0 * (nodes - 1) / nodes * static_cast<double>(bytes) / 1e3;
    EXPECT_NEAR(run.time_us, expected, 0.001 * expected) << nodes;
  }
}

TEST(Simulator, GivesTheHopsOfTheRingWhereOnlyLatencyCosts) {
  NetworkModel m = only_the_wire(1e5);
  m.latency_us = 1000;
  for (int nodes : {2, 5, 9}) {
    Predictor p(even_cluster(nodes, 3), m, {});
    const auto run = p.predict({find_algorithm("two-hop"), 1 << 20, 1, 64}, Collective::kAllReduce, 1000);
    // The last put's sender hears of its end one latency later.
    EXPECT_NEAR(run.time_us, 1000.0 * (2 * (nodes - 1) + 1), 1) << nodes;
  }
}

TEST(Simulator, KeepsTheWireBusyInLongCalls) {
  // Bytes out of the busiest node at the rail's rate are the least possible; the pipeline comes close.
  NetworkModel m = only_the_wire(1);
  m.latency_us = 5;
  for (const Algorithm* a : algorithms_for(*even_cluster(3, 2), Collective::kAllReduce)) {
    Predictor p(even_cluster(3, 2), m, {});
    const double bytes = 64 << 20;
    const auto run = p.predict({a, 128 << 10, 2, 64}, Collective::kAllReduce, static_cast<uint64_t>(bytes));
    const double least = busiest_bytes_out_per_byte(*a, {&p.cluster(), Collective::kAllReduce, 0, {}}) * bytes / 1e3;
    EXPECT_GE(run.time_us, least * 0.999) << a->name;
    EXPECT_LE(run.time_us, least * 1.6) << a->name;
  }
}

TEST(Simulator, PutsNoMoreOnAWireThanTheAlgorithmSays) {
  for (const Algorithm* a : algorithms_for(*even_cluster(4, 2), Collective::kAllReduce)) {
    Predictor p(even_cluster(4, 2), only_the_wire(1), {}, {}, Symmetry::kOff);
    const auto bytes = uint64_t{4 * 2 * 128 * 64};
    const auto run = p.predict({a, 1 << 20, 1, 64}, Collective::kAllReduce, bytes);
    const double expected =
        busiest_bytes_out_per_byte(*a, {&p.cluster(), Collective::kAllReduce, 0, {}}) * static_cast<double>(bytes);
    EXPECT_NEAR(run.run.wire_busy_us * 1e3 / expected, 1, 0.001) << a->name;
  }
}

// ---- The right way ----
double time_of(const Algorithm* a, const NetworkModel& m, uint64_t bytes, int nodes = 6, int group = 2) {
  Predictor p(even_cluster(nodes, group), m, {});
  return p.predict({a, 64 << 10, 2, 64}, Collective::kAllReduce, bytes).time_us;
}

TEST(Simulator, IsNeverFasterOnWorseMachines) {
  struct Worse {
    const char* what;
    void (*make)(NetworkModel&);
  };
  const Worse worse[] = {
      {"rate", [](NetworkModel& m) { m.rail_gbytes_per_s /= 4; }},
      {"latency", [](NetworkModel& m) { m.latency_us *= 5; }},
      {"loss", [](NetworkModel& m) { m.loss = 0.001; }},
      {"copies", [](NetworkModel& m) { m.copy_gbytes_per_s /= 3; }},
      {"reduction", [](NetworkModel& m) { m.reduce_gbytes_per_s /= 3; }},
      {"signals", [](NetworkModel& m) { m.signal_us *= 10; }},
      {"doorbells", [](NetworkModel& m) { m.doorbell_us *= 10; }},
      {"completions", [](NetworkModel& m) { m.completion_us *= 10; }},
      {"spine", [](NetworkModel& m) { m.nodes_per_leaf = 2, m.oversubscription = 8; }},
      {"transport's copies", [](NetworkModel& m) { m.send_gbytes_per_s = m.receive_gbytes_per_s = 2; }},
      {"rails", [](NetworkModel& m) { m.rails = 1; }}};
  NetworkModel base;
  base.rails = 2;
  base.rail_gbytes_per_s = 2;
  for (const Algorithm* a : algorithms_for(*even_cluster(6, 2), Collective::kAllReduce))
    for (uint64_t bytes : {8u, 65536u, 8u << 20})
      for (const Worse& w : worse) {
        NetworkModel bad = base;
        w.make(bad);
        // A lane may take another's turn, which can gain a little: as on a real core.
        EXPECT_GE(time_of(a, bad, bytes), 0.98 * time_of(a, base, bytes)) << a->name << " " << bytes << " " << w.what;
      }
}

TEST(Simulator, SharesCoresAmongMoreRanksThanCores) {
  NetworkModel m;
  m.rail_gbytes_per_s = 100;  // so that the cores are what limits
  m.nodes_per_machine = 0;
  for (const Algorithm* a : algorithms_for(*even_cluster(2, 4), Collective::kAllReduce)) {
    m.cores = 8;
    const double apart = time_of(a, m, 4 << 20, 2, 4);
    m.cores = 2;
    const double shared = time_of(a, m, 4 << 20, 2, 4);
    EXPECT_GT(shared, 1.5 * apart) << a->name;
    EXPECT_LT(shared, 8 * apart) << a->name;
  }
}

TEST(Simulator, GivesTheSameBitsEveryTime) {
  NetworkModel m;
  m.nodes_per_machine = 0;
  m.cores = 3;
  for (const Algorithm* a : algorithms_for(*even_cluster(5, 2), Collective::kAllReduce))
    EXPECT_EQ(time_of(a, m, 1'000'003, 5, 2), time_of(a, m, 1'000'003, 5, 2)) << a->name;
}

TEST(Simulator, DrawsIntervalsThatDoNotOverlapOnACoreOrRail) {
  Predictor p(even_cluster(2, 2), NetworkModel(), {});
  const auto run =
      p.predict({find_algorithm("two-hop"), 64 << 10, 2, 64}, Collective::kAllReduce, 2 << 20, {1'000'000, true});
  ASSERT_FALSE(run.run.timeline.empty());
  std::map<std::pair<int, int>, double> last;  // by rank and rail
  auto intervals = run.run.timeline;
  std::stable_sort(intervals.begin(), intervals.end(),
                   [](const Interval& a, const Interval& b) { return a.begin_us < b.begin_us; });
  for (const Interval& i : intervals) {
    EXPECT_LE(i.begin_us, i.end_us);
    if (i.rail >= 0) continue;
    EXPECT_GE(i.begin_us, last[std::make_pair(i.rank, i.rail)] - 1e-9);
    last[std::make_pair(i.rank, i.rail)] = i.end_us;
  }
}

}  // namespace
}  // namespace twohop
