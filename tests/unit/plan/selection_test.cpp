// Which algorithms does a text choose, and which of them does a call use?
#include "collectives/plan/selection.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "shapes.hpp"

namespace twohop {
namespace {

using testing::HasSubstr;

constexpr uint64_t kLittle = 8, kMuch = 64 << 20;

std::string chosen(std::string_view text, Collective c, uint64_t bytes, const std::vector<int>& sizes = {2, 2}) {
  const auto selection = Selection::parse(text);
  EXPECT_TRUE(selection) << text;
  return selection ? std::string(selection->choose(cluster_of(sizes), c, bytes).name) : "";
}

TEST(Selection, IsByTheAmountOfDataWhereTheLibraryChooses) {
  EXPECT_EQ(chosen("auto", Collective::kAllReduce, kMuch), "two-hop");
  EXPECT_EQ(chosen("auto", Collective::kAllReduce, kLittle, {4}), "one-shot");
  EXPECT_EQ(chosen("auto", Collective::kAllReduce, 16 << 10, {2, 2}), "one-shot");
  EXPECT_EQ(chosen("auto", Collective::kAllReduce, (16 << 10) + 1, {2, 2}), "two-hop");
  EXPECT_EQ(chosen("auto", Collective::kAllReduce, kMuch, {4}), "two-hop");
  for (const Collective c : {Collective::kReduceScatter, Collective::kAllGather, Collective::kBroadcast})
    EXPECT_EQ(chosen("auto", c, kLittle), "two-hop");
}

TEST(Selection, KeepsToOneAlgorithmWhereItKnowsTheCollective) {
  for (const Algorithm& a : algorithms())
    for (const Collective c : kCollectives)
      for (const uint64_t bytes : {kLittle, kMuch})
        EXPECT_EQ(chosen(a.name, c, bytes), a.supports(cluster_of({2, 2}), c) ? a.name : "two-hop");
}

TEST(Selection, TakesTheFirstOfTheTableFromAList) {
  EXPECT_EQ(chosen("flat,two-hop-log", Collective::kAllReduce, kMuch), "two-hop-log");
  EXPECT_EQ(chosen("flat,two-hop-log", Collective::kAllReduce, kLittle), "two-hop-log");
  EXPECT_EQ(chosen("flat,one-shot", Collective::kAllReduce, kMuch), "flat");
  EXPECT_EQ(chosen("flat,one-shot", Collective::kAllReduce, kLittle, {4}), "one-shot");
  EXPECT_EQ(chosen("two-hop,two-hop", Collective::kAllReduce, kMuch), "two-hop");
}

TEST(Selection, InvertsAListAfterACaret) {
  EXPECT_EQ(chosen("^two-hop", Collective::kAllReduce, kMuch), "two-hop-tree");
  EXPECT_EQ(chosen("^two-hop", Collective::kAllGather, kMuch), "two-hop-log");
  EXPECT_EQ(chosen("^two-hop,two-hop-tree", Collective::kAllReduce, kMuch), "two-hop-log");
  EXPECT_EQ(chosen("^one-shot", Collective::kAllReduce, kLittle, {4}), "two-hop");
  EXPECT_EQ(chosen("^flat-naive", Collective::kAllReduce, kMuch), "two-hop");
}

TEST(Selection, ReachesExactlyWhatItCanChoose) {
  const auto reached = [](std::string_view text, const std::vector<int>& sizes) {
    std::string names;
    for (const Algorithm* a : Selection::parse(text)->reachable(cluster_of(sizes))) names += std::string(a->name) + " ";
    return names;
  };
  EXPECT_EQ(reached("two-hop", {2, 2}), "two-hop ");
  EXPECT_EQ(reached("auto", {4}), "two-hop one-shot ");
  EXPECT_EQ(reached("flat", {2, 2}), "two-hop flat ");  // two-hop for the collectives that flat does not know
  EXPECT_EQ(reached("^two-hop", {2, 2}).find("two-hop "), std::string::npos);
}

TEST(Selection, RefusesWhatItDoesNotKnowAndSaysWhatThereIs) {
  for (const char* bad : {"", "ring", "two-hop ", "TWO-HOP", "^", "^ring", "flat,", ",flat", "flat,,two-hop",
                          "auto,flat", "^auto", "flat,^two-hop"}) {
    const auto s = Selection::parse(bad);
    ASSERT_FALSE(s) << bad;
    EXPECT_EQ(s.error().code, twohopInvalidArgument);
    EXPECT_THAT(s.error().message, HasSubstr(std::string("algorithm \"") + bad + "\""));
    EXPECT_THAT(s.error().message, HasSubstr("auto, or a comma separated list of two-hop, two-hop-tree, "));
  }
  std::string all = "^two-hop";
  for (const Algorithm& a : algorithms()) all += "," + std::string(a.name);
  EXPECT_FALSE(Selection::parse(all)) << "nothing would be left";
}

}  // namespace
}  // namespace twohop
