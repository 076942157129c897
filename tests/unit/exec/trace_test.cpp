// The trace of real calls, ranks as threads: it is JSON, its spans lie inside their call, and every byte sent is in it.
#include "collectives/exec/trace.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "bootstrap/unique_id.hpp"
#include "collectives/exec/communicator.hpp"
#include "collectives/exec/run.hpp"

namespace twohop {
namespace {

using Json = nlohmann::json;
constexpr int kRanks = 4;

class TraceFile : public testing::Test {
 protected:
  TraceFile()
      : folder_(
            std::filesystem::temp_directory_path() /
            fmt::format("trace_test.{}.{}", getpid(), testing::UnitTest::GetInstance()->current_test_info()->name())) {
    std::filesystem::create_directory(folder_);
  }
  ~TraceFile() override { std::filesystem::remove_all(folder_); }

  std::string file(int rank) const { return folder_ / fmt::format("t{}.json", rank); }
  Json read(int rank) const { return Json::parse(std::ifstream(file(rank))); }

  /// Two all-reduces on 2 virtual nodes of 2 ranks.
  void run_calls(const std::string& pattern, size_t count) const {
    Options options;
    options.trace = folder_ / pattern;
    auto id = make_unique_id(options);
    ASSERT_TRUE(id) << id.error().message;
    std::vector<std::thread> threads;
    for (int rank = 0; rank < kRanks; ++rank) threads.emplace_back([&, rank] { run_rank(*id, rank, options, count); });
    for (auto& t : threads) t.join();
  }

  std::filesystem::path folder_;

 private:
  static void run_rank(const twohopUniqueId& id, int rank, const Options& options, size_t count) {
    CommConfig config;
    config.algo = "two-hop";
    config.ranks_per_node = 2;
    auto comm = Communicator::init(id, kRanks, rank, config, options);
    ASSERT_TRUE(comm) << comm.error().message;
    std::vector<float> data(count, 1.0f);
    for (int i = 0; i < 2; ++i) {
      Call call{.send = data.data(), .recv = data.data(), .count = count, .type = twohopFloat32};
      auto done = run_one(**comm, call);
      ASSERT_TRUE(done) << done.error().message;
    }
  }
};

TEST_F(TraceFile, HoldsEveryPutAndAllSpansInsideTheirCalls) {
  constexpr size_t kCount = 300'001;
  run_calls("t%r.json", kCount);
  for (int rank = 0; rank < kRanks; ++rank) {
    const Json trace = read(rank);
    EXPECT_EQ(trace["otherData"]["rank"], rank);
    double first = 1e300, last = 0;
    uint64_t calls = 0, bytes_put = 0, reduced = 0;
    std::map<std::string, int> open_puts;
    for (const Json& e : trace["traceEvents"]) {
      const std::string phase = e["ph"];
      if (phase == "M") continue;
      if (e["name"] == "call") {
        ++calls;
        EXPECT_EQ(e["args"]["bytes"], kCount * 4);
        first = std::min(first, e["ts"].get<double>());
        last = std::max(last, e["ts"].get<double>() + e["dur"].get<double>());
      }
      if (phase == "b") {
        bytes_put += e["args"]["bytes"].get<uint64_t>();
        ++open_puts[e["id"]];
      }
      if (phase == "e") --open_puts[e["id"]];
      if (e["name"] == "Reduce") reduced += e["args"]["bytes"].get<uint64_t>();
    }
    EXPECT_EQ(calls, 2u);
    for (const auto& [id, open] : open_puts) EXPECT_EQ(open, 0) << id;
    // Each rank owns half of the data, and sends half of that as partial sums and half as results, per call.
    EXPECT_NEAR(static_cast<double>(bytes_put), 2 * kCount * 4 / 2.0, 4096);
    EXPECT_GT(reduced, 0u);
    for (const Json& e : trace["traceEvents"]) {
      if (e["ph"] != "X") continue;
      EXPECT_GE(e["ts"].get<double>(), first - 1);
      EXPECT_LE(e["ts"].get<double>() + e["dur"].get<double>(), last + 1);
    }
  }
}

TEST_F(TraceFile, OnAFullDiskCostsAWarningAndNothingElse) {
  if (access("/dev/full", W_OK) != 0) GTEST_SKIP() << "needs /dev/full";
  for (int rank = 0; rank < kRanks; ++rank) std::filesystem::create_symlink("/dev/full", file(rank));
  run_calls("t%r.json", 100'000);
}

TEST_F(TraceFile, OfALaterCommunicatorHasANumberInItsName) {
  run_calls("t%r.json", 10);
  run_calls("t%r.json", 20);
  EXPECT_EQ(Json::parse(std::ifstream(folder_ / "t1.2.json"))["otherData"]["rank"], 1);
  EXPECT_EQ(read(1)["otherData"]["rank"], 1);
}

TEST_F(TraceFile, NeedsANameOfItsOwnForEachRank) {
  auto trace = Trace::open(folder_ / "t.json", 0, "");
  ASSERT_FALSE(trace);
  EXPECT_NE(trace.error().message.find("%r"), std::string::npos) << trace.error().message;
  EXPECT_FALSE(std::filesystem::exists(folder_ / "t.json"));
}

TEST_F(TraceFile, ThatCannotBeWrittenIsAnErrorBeforeAnythingRuns) {
  auto trace = Trace::open(folder_ / "nowhere" / "t%r.json", 3, "");
  ASSERT_FALSE(trace);
  EXPECT_NE(trace.error().message.find("nowhere/t3.json"), std::string::npos) << trace.error().message;
}

}  // namespace
}  // namespace twohop
