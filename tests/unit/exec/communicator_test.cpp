// Ranks as threads of this process: every collective and scheme on several shapes, with every element checked.
#include "collectives/exec/communicator.hpp"

#include <gtest/gtest.h>

#include <unistd.h>

#include <fstream>
#include <functional>
#include <iostream>
#include <latch>
#include <numeric>
#include <random>
#include <thread>

#include "bootstrap/unique_id.hpp"
#include "collectives/exec/run.hpp"

namespace twohop {
namespace {

using Body = std::function<void(Communicator&)>;

/// Runs `body` on every rank of a fresh communicator. One node per entry of `nodes` would need several hosts: virtual
/// nodes of equal size instead, the last one smaller.
void with_ranks(int nranks, int ranks_per_node, const std::string& algo, const Body& body, Options options = {},
                double timeout_s = 20) {
  auto id = make_unique_id(options);
  ASSERT_TRUE(id) << id.error().message;
  CommConfig config;
  config.algo = algo;
  config.ranks_per_node = ranks_per_node;
  config.timeout_s = timeout_s;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < nranks; ++rank)
    threads.emplace_back([&, rank] {
      auto comm = Communicator::init(*id, nranks, rank, config, options);
      ASSERT_TRUE(comm) << comm.error().message;
      body(**comm);
    });
  for (auto& t : threads) t.join();
}

int32_t contribution(int rank, size_t i) {
  return static_cast<int32_t>(i * 7 + static_cast<size_t>(rank) * 1000003);
}

/// Of all ranks, without a loop: under the thread sanitizer, adding up would take longer than the calls do.
int32_t sum_of_contributions(int nranks, size_t i) {
  auto n = static_cast<size_t>(nranks);
  return static_cast<int32_t>(n * i * 7 + n * (n - 1) / 2 * 1000003);
}

void all_reduce(Communicator& comm, size_t count, bool in_place) {
  std::vector<int32_t> in(count + 1), out(count + 1, -1);
  for (size_t i = 0; i < count; ++i) in[i] = contribution(comm.rank(), i);
  int32_t* recv = in_place ? in.data() : out.data();
  Call call{.collective = Collective::kAllReduce, .send = in.data(), .recv = recv, .count = count, .type = twohopInt32};
  auto done = run_one(comm, call);
  ASSERT_TRUE(done) << done.error().message;
  size_t wrong = 0;
  for (size_t i = 0; i < count; ++i) wrong += recv[i] != sum_of_contributions(comm.nranks(), i);
  EXPECT_EQ(wrong, 0u) << "count " << count << " in place " << in_place;
}

struct Shape {
  int nranks, ranks_per_node;
};

class OnEveryShape : public testing::TestWithParam<const Algorithm*> {};

TEST_P(OnEveryShape, CommunicatorSums) {
  for (Shape s : {Shape{1, 1}, {2, 2}, {2, 1}, {3, 3}, {4, 2}, {3, 2}, {5, 2}, {6, 2}, {7, 3}, {8, 4}})
    with_ranks(s.nranks, s.ranks_per_node, std::string(GetParam()->name), [&](Communicator& comm) {
      for (size_t count : {size_t{0}, size_t{1}, size_t(s.nranks - 1), size_t(s.nranks), size_t{13}, size_t{1009},
                           size_t{65537}, size_t{300007}})
        for (bool in_place : {false, true}) all_reduce(comm, count, in_place);
    });
}

std::vector<const Algorithm*> all_algorithms() {
  std::vector<const Algorithm*> all;
  for (const Algorithm& a : algorithms()) all.push_back(&a);
  return all;
}
std::string algorithm_name(const testing::TestParamInfo<const Algorithm*>& info) {
  std::string name(info.param->name);
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}
INSTANTIATE_TEST_SUITE_P(Algorithms, OnEveryShape, testing::ValuesIn(all_algorithms()), algorithm_name);

TEST(Communicator, HasTheSameTuningOnAllRanks) {
  for (int ranks_per_node : {4, 2, 1}) {
    std::vector<TunerTable> tables(4);
    Options options;
    options.model_file = "built-in";
    with_ranks(
        4, ranks_per_node, "auto",
        [&](Communicator& comm) { tables[static_cast<size_t>(comm.rank())] = comm.tuning().table(); }, options);
    EXPECT_FALSE(tables[0].rows.empty());
    for (const TunerTable& t : tables) EXPECT_EQ(t, tables[0]);
  }
}

TEST(Communicator, SumsUnderAGivenTable) {
  Options options;
  options.tuner_file = testing::TempDir() + "communicator_test_table_" + std::to_string(::getpid());
  std::ofstream(options.tuner_file) << R"({"rows": [
    {"collective":"AllReduce","max_bytes":5000,"algorithm":"flat","chunk_bytes":128,"channels":1,"batch":1},
    {"collective":"AllReduce","algorithm":"two-hop","chunk_bytes":16384,"channels":2,"batch":8}]})";
  with_ranks(
      4, 2, "auto",
      [&](Communicator& comm) {
        for (size_t count : {1, 1250, 1251, 100'003}) all_reduce(comm, count, false);
      },
      options);
  ::unlink(options.tuner_file.c_str());
}

/// A table with a row for each algorithm, so that the size of a call says which one it uses.
std::string table_of_all_algorithms() {
  std::string rows;
  uint64_t bytes = 1000;
  for (const Algorithm& a : algorithms()) {
    rows += fmt::format(
        R"({{"collective":"AllReduce","max_bytes":{},"algorithm":"{}","chunk_bytes":4096,"channels":2,"batch":8}},)",
        bytes, a.name);
    bytes += 1000;
  }
  return fmt::format(R"({{"rows": [{}
    {{"collective":"AllReduce","algorithm":"two-hop","chunk_bytes":4096,"channels":2,"batch":8}}]}})",
                     rows);
}

/// Their links share inboxes, and nothing is reset between calls.
TEST(Communicator, SumsByAnyAlgorithmAfterAnyOther) {
  const auto seed = std::random_device()();
  Options options;
  options.tuner_file = testing::TempDir() + "communicator_test_all_" + std::to_string(::getpid());
  std::ofstream(options.tuner_file) << table_of_all_algorithms();
  for (const Shape s : {Shape{2, 1}, {4, 2}, {5, 2}})
    with_ranks(
        s.nranks, s.ranks_per_node, "auto",
        [&](Communicator& comm) {
          std::mt19937 random(seed);
          for (int call = 0; call < 200; ++call) all_reduce(comm, 200 + random() % 11 * 250, random() % 2);
        },
        options);
  ::unlink(options.tuner_file.c_str());
  if (HasFailure()) std::cerr << "seed " << seed << '\n';
}

/// Node 0's broadcast of call 1 lies unread in node 2's inbox when call 3 has something for that inbox over another
/// link: broadcasts let ranks go on while others have not even begun.
TEST(Communicator, DoesNotOverwriteWhatALateRankHasNotReadOverAnotherLink) {
  constexpr int kRanks = 4, kLate = 2, kTurns = 1000;
  constexpr size_t kCount = 1000;
  std::latch others_are_in_call_3(kRanks - 1), others_have_put(kRanks - 1);
  const auto broadcast = [](Communicator& comm, int32_t value) {
    std::vector<int32_t> data(kCount, comm.rank() == 0 ? value : -1);
    auto done = run_one(comm, {.collective = Collective::kBroadcast,
                               .send = data.data(),
                               .recv = data.data(),
                               .count = kCount,
                               .type = twohopInt32});
    ASSERT_TRUE(done) << done.error().message;
    EXPECT_EQ(std::count(data.begin(), data.end(), value), static_cast<std::ptrdiff_t>(kCount)) << comm.rank();
  };
  /// Moves on as far as it can without the late rank, and then to the end.
  const auto all_reduce_in_turns = [&](Communicator& comm) {
    std::vector<int32_t> data(kCount, 1);
    ASSERT_TRUE(comm.start({.send = data.data(), .recv = data.data(), .count = kCount, .type = twohopInt32}));
    auto progress = comm.progress();
    others_are_in_call_3.count_down();
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    for (int turns = 0; progress && *progress != Communicator::Progress::kDone; progress = comm.progress()) {
      turns += others_are_in_call_3.try_wait();
      if (turns == kTurns) others_have_put.count_down(), ++turns;
      ASSERT_LT(std::chrono::steady_clock::now(), end);
      std::this_thread::yield();
    }
    ASSERT_TRUE(progress) << progress.error().message;
    EXPECT_EQ(std::count(data.begin(), data.end(), kRanks), static_cast<std::ptrdiff_t>(kCount));
  };
  Options options;
  options.model_file = "none";  // broadcasts by log steps, small all-reduces by one-shot
  with_ranks(
      kRanks, 1, "two-hop-log,one-shot",
      [&](Communicator& comm) {
        const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
        while (comm.rank() == kLate && !others_have_put.try_wait()) {
          ASSERT_LT(std::chrono::steady_clock::now(), end);
          std::this_thread::yield();
        }
        for (int32_t call = 1; call <= 2; ++call) broadcast(comm, call);
        if (comm.rank() != kLate) return all_reduce_in_turns(comm);
        std::vector<int32_t> data(kCount, 1);
        auto done = run_one(comm, {.send = data.data(), .recv = data.data(), .count = kCount, .type = twohopInt32});
        ASSERT_TRUE(done) << done.error().message;
      },
      options);
}

TEST(Communicator, NamesATunerFileThatIsMissingOnAllRanks) {
  Options options;
  options.tuner_file = "/nowhere/table.json";
  auto id = make_unique_id(options);
  ASSERT_TRUE(id) << id.error().message;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank)
    threads.emplace_back([&, rank] {
      auto comm = Communicator::init(*id, 2, rank, CommConfig(), options);
      ASSERT_FALSE(comm);
      EXPECT_NE(comm.error().message.find("TWOHOP_TUNER_FILE=/nowhere/table.json"), std::string::npos)
          << comm.error().message;
    });
  for (auto& t : threads) t.join();
}

TEST(Communicator, ASmallCallThatHangsSaysWhoHasNotEnteredIt) {
  std::latch over(1);
  with_ranks(2, 2, "auto", [&](Communicator& comm) {
    if (comm.rank() == 0) return over.wait();
    int32_t data = 1;
    ASSERT_TRUE(comm.start({.send = &data, .recv = &data, .count = 1, .type = twohopInt32}));
    ASSERT_TRUE(comm.progress());
    const Communicator::HangReport report = comm.hang_report();
    EXPECT_NE(report.summary.find("waits for rank 0 to enter the call"), std::string::npos) << report.summary;
    EXPECT_NE(report.table.find("rank 0 to enter the call"), std::string::npos) << report.table;
    comm.fail(make_error(twohopAborted, "the test is over"));
    over.count_down();
  });
}

TEST(Communicator, SumsSmallAndLargeCallsInAnyOrder) {
  const auto seed = std::random_device()();
  constexpr size_t kCounts[] = {0,    1,    10,   11,
                                1000, 2048, 2049, 70'000};  // inside a notice, a window, and cut in chunks
  for (int nranks : {1, 2, 3, 8})
    with_ranks(nranks, nranks, "auto", [&](Communicator& comm) {
      std::mt19937 random(seed);
      for (int call = 0; call < 300; ++call) all_reduce(comm, kCounts[random() % std::size(kCounts)], random() % 2);
    });
  if (HasFailure()) std::cerr << "seed " << seed << '\n';
}

TEST(Communicator, ATimeoutNamesTheRankThatHasNotComeOnEveryRank) {
  constexpr int kRanks = 4, kLate = 2;
  for (const auto& [ranks_per_node, count] : {std::pair{4, 10}, {4, 100'000}, {2, 100'000}, {1, 100'000}}) {
    std::latch met(kRanks), over(kRanks - 1);
    with_ranks(
        kRanks, ranks_per_node, "auto",
        [&, count = count](Communicator& comm) {
          all_reduce(comm, 1009, false);
          met.arrive_and_wait();  // or a rank that is later than that is named
          if (comm.rank() == kLate) return over.wait();
          std::vector<int32_t> data(static_cast<size_t>(count));
          auto done =
              run_one(comm, {.send = data.data(), .recv = data.data(), .count = data.size(), .type = twohopInt32});
          over.count_down();
          ASSERT_FALSE(done);
          EXPECT_EQ(done.error().code, twohopTimeout) << done.error().message;
          EXPECT_NE(done.error().message.find("rank 2 has not entered call 2"), std::string::npos)
              << done.error().message;
        },
        {}, 1.5);
  }
}

}  // namespace
}  // namespace twohop
