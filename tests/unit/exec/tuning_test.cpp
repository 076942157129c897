// Which choice does a call of a communicator get: from a file, from the model, by name?
#include "collectives/exec/tuning.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

namespace twohop {
namespace {

using testing::HasSubstr;

class Files : public testing::Test {
 protected:
  ~Files() override {
    for (const auto& f : files_) ::unlink(f.c_str());
  }
  std::string file(const std::string& text) {
    files_.push_back(testing::TempDir() + "tuning_test_" + std::to_string(::getpid()) + "_" +
                     std::to_string(files_.size()));
    std::ofstream(files_.back()) << text;
    return files_.back();
  }
  TuningPlace place() const {
    TuningPlace p;
    p.cluster = &cluster_;
    p.limits.max_channels = 2;
    p.net = "tcp";
    p.cores = 4;
    return p;
  }
  Result<Tuning> tuning(const std::string& algo, const Options& options) const {
    const auto selection = Selection::parse(algo);
    if (!selection) return selection.error();
    auto text = make_tuning(*selection, options, place());
    if (!text) return text.error();
    return Tuning::create(*selection, *text, cluster_, place().limits, 64);
  }
  Choice choose(const Tuning& t, uint64_t bytes, Collective c = Collective::kAllReduce) const {
    return t.choose(c, bytes);
  }

  Cluster cluster_ = make_cluster(std::vector<int>{0, 0, 1, 1});
  std::vector<std::string> files_;
};
using TuningOfACommunicator = Files;

TEST_F(TuningOfACommunicator, FollowsAGivenTable) {
  Options options;
  options.tuner_file = file(R"({"rows": [
    {"collective":"AllReduce","max_bytes":1000,"algorithm":"flat","chunk_bytes":256,"channels":1,"batch":3},
    {"collective":"AllReduce","algorithm":"flat-naive","chunk_bytes":512,"channels":2,"batch":4}]})");
  const auto t = tuning("auto", options);
  ASSERT_TRUE(t) << t.error().message;
  EXPECT_EQ(choose(*t, 1000), (Choice{find_algorithm("flat"), 256, 1, 3}));
  EXPECT_EQ(choose(*t, 1001), (Choice{find_algorithm("flat-naive"), 512, 2, 4}));
  EXPECT_EQ(choose(*t, 1, Collective::kBroadcast).algorithm->name, "two-hop") << "the table has no row for it";
}

TEST_F(TuningOfACommunicator, KeepsToTheSelectionWhereTheTableDoesNot) {
  Options options;
  options.tuner_file = file(R"({"rows": [
    {"collective":"AllReduce","algorithm":"flat","chunk_bytes":256,"channels":1,"batch":3},
    {"collective":"Broadcast","algorithm":"flat","chunk_bytes":256,"channels":1,"batch":3}]})");
  const auto t = tuning("^flat", options);
  ASSERT_TRUE(t) << t.error().message;
  EXPECT_NE(choose(*t, 8 << 20).algorithm->name, "flat") << "ruled out";
  EXPECT_EQ(choose(*t, 8 << 20, Collective::kBroadcast).algorithm->name, "two-hop") << "flat cannot do it";
}

TEST_F(TuningOfACommunicator, ChoosesAmongTheSelected) {
  Options options;
  options.model_file = "built-in";
  const auto t = tuning("flat,flat-naive", options);
  ASSERT_TRUE(t) << t.error().message;
  ASSERT_FALSE(t->table().rows.empty());
  for (uint64_t bytes : {8u, 8u << 20}) EXPECT_EQ(choose(*t, bytes).algorithm->name.substr(0, 4), "flat");
}

TEST_F(TuningOfACommunicator, HasATableByDefaultThatTakesTheLatencyPathForLittleData) {
  const auto t = tuning("auto", {});
  ASSERT_TRUE(t) << t.error().message;
  for (Collective c :
       {Collective::kAllReduce, Collective::kReduceScatter, Collective::kAllGather, Collective::kBroadcast})
    EXPECT_NE(t->table().find(c, 8), nullptr) << collective_name(c);
  EXPECT_EQ(choose(*t, 8).algorithm->name, "one-shot");
  EXPECT_EQ(choose(*t, 64 << 20).algorithm->name.substr(0, 7), "two-hop");
}

TEST_F(TuningOfACommunicator, FollowsTheRuleWhereTheUserWantsNoModel) {
  Options options;
  options.model_file = "none";
  const auto t = tuning("auto", options);
  ASSERT_TRUE(t) << t.error().message;
  EXPECT_TRUE(t->table().rows.empty());
  EXPECT_EQ(choose(*t, 8).algorithm->name, "one-shot");
  EXPECT_EQ(choose(*t, 64 << 20).algorithm->name, "two-hop");
}

TEST_F(TuningOfACommunicator, ReachesWhatItsTableNames) {
  Options options;
  options.model_file = "built-in";
  const auto t = tuning("auto", options);
  ASSERT_TRUE(t) << t.error().message;
  const auto reachable = t->reachable(cluster_);
  for (uint64_t bytes = 1; bytes < uint64_t{1} << 34; bytes *= 3)
    for (Collective c : {Collective::kAllReduce, Collective::kBroadcast, Collective::kAllGather})
      EXPECT_THAT(reachable, testing::Contains(choose(*t, bytes, c).algorithm)) << bytes;
}

TEST_F(TuningOfACommunicator, NeedsNoTableWhereAnAlgorithmIsAskedFor) {
  Options options;
  options.tuner_file = "/nowhere";
  const auto t = tuning("flat", options);
  ASSERT_TRUE(t) << t.error().message;
  EXPECT_TRUE(t->table().rows.empty());
  EXPECT_EQ(choose(*t, 8).algorithm->name, "flat");
  EXPECT_EQ(choose(*t, 8, Collective::kBroadcast).algorithm->name, "two-hop");
}

TEST_F(TuningOfACommunicator, FollowsAGivenModel) {
  // With a wire this slow only the bytes that leave a node count; with this one only its latency.
  Options slow, late;
  slow.model_file = file(R"({"rail_gbytes_per_s": 0.0001, "latency_us": 0})");
  late.model_file = file(R"({"rail_gbytes_per_s": 10000, "latency_us": 100000})");
  for (const Options& options : {slow, late}) {
    const auto t = tuning("auto", options);
    ASSERT_TRUE(t) << t.error().message;
    const Algorithm& chosen = *choose(*t, 64 << 20).algorithm;
    EXPECT_NE(chosen.name, "flat-naive");
    EXPECT_NE(chosen.name, "flat");
  }
}

TEST_F(TuningOfACommunicator, NamesTheFileThatIsWrong) {
  Options missing, broken, table;
  missing.model_file = "/nowhere/model.json";
  broken.model_file = file(R"({"rails": 0})");
  table.tuner_file = file("{}");
  for (const auto& [options, names] : {std::pair{missing, "TWOHOP_MODEL_FILE=/nowhere/model.json"},
                                       {broken, "rails is 0"},
                                       {table, "TWOHOP_TUNER_FILE"}}) {
    const auto t = tuning("auto", options);
    ASSERT_FALSE(t);
    EXPECT_THAT(t.error().message, HasSubstr(names));
    EXPECT_EQ(t.error().code, twohopInvalidArgument);
  }
}

TEST_F(TuningOfACommunicator, HasATableForEachBuiltInModelAndNetwork) {
  for (const char* net : {"tcp", "verbs", "softnic", ""}) {
    TuningPlace p = place();
    p.net = net;
    Options options;
    options.model_file = "built-in";
    const auto text = make_tuning(Selection(), options, p);
    ASSERT_TRUE(text) << text.error().message;
    EXPECT_TRUE(parse_tuner_table(*text)) << *text;
  }
}

TEST_F(TuningOfACommunicator, SparesBytesWhereTheWireIsKnownToBeSlow) {
  cluster_ = make_cluster(std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7});
  auto largest_one_shot = [&](double gbit_per_s) {
    TuningPlace p = place();
    p.machines = 8;
    p.rail_gbit_per_s = gbit_per_s;
    const auto text = make_tuning(Selection(), Options(), p);
    EXPECT_TRUE(text) << text.error().message;
    const auto table = parse_tuner_table(*text);
    const TunerRow* row = table->find_row(Collective::kAllReduce, 8);
    EXPECT_EQ(row->choice.algorithm->name, "one-shot");
    return row->max_bytes;
  };
  EXPECT_LT(largest_one_shot(1), largest_one_shot(10));
  EXPECT_LT(largest_one_shot(10), largest_one_shot(400));
  EXPECT_EQ(largest_one_shot(10), largest_one_shot(0)) << "10 Gbit/s is what is assumed";
}

}  // namespace
}  // namespace twohop
