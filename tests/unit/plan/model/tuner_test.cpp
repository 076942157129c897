// Does the tuner take what the model says is fastest, everywhere, and always the same? What tables are refused?
#include "collectives/plan/model/tuner.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "unit/plan/model/model_cases.hpp"

namespace twohop {
namespace {

using testing::HasSubstr;

TunerTable table_for(const std::shared_ptr<const Cluster>& cluster, const NetworkModel& model) {
  Predictor p(cluster, model, {});
  TunerSpace space;
  space.max_channels = 2;
  return tune(p, space, {std::begin(kCollectives), std::end(kCollectives)});
}

NetworkModel slow_wire() {
  NetworkModel m;
  m.rail_gbytes_per_s = 0.1;
  return m;
}

TEST(Tuner, GivesTheSameTableToTheBit) {
  for (const auto& model : builtin_models())
    for (auto [nodes, group] : {std::pair{1, 4}, {2, 2}, {3, 1}, {4, 4}}) {
      const auto cluster = even_cluster(nodes, group);
      EXPECT_EQ(format_tuner_table(table_for(cluster, model)), format_tuner_table(table_for(cluster, model)));
    }
}

TEST(Tuner, HasAChoiceForEveryCollectiveAndSizeThatFits) {
  for (const auto& cluster : {even_cluster(1, 1), even_cluster(1, 4), even_cluster(4, 2),
                              std::shared_ptr<const Cluster>(std::make_shared<Cluster>(cluster_of({3, 1, 2})))}) {
    const TunerTable table = table_for(cluster, NetworkModel());
    for (Collective c : kCollectives)
      for (uint64_t bytes : {uint64_t{0}, uint64_t{1}, uint64_t{4097}, uint64_t{1} << 40, UINT64_MAX}) {
        const Choice* choice = table.find(c, bytes);
        ASSERT_NE(choice, nullptr) << collective_name(c) << " " << bytes;
        EXPECT_TRUE(choice->algorithm->supports(*cluster, c));
      }
  }
}

/// Two-hop is never chosen where flat is predicted to be faster, and the other way round, up to the precision of
/// borders.
TEST(Tuner, NeverChoosesWhatIsPredictedToBeSlower) {
  for (const NetworkModel& model : {NetworkModel(), slow_wire(), *find_builtin_model("tcp")})
    for (auto [nodes, group] : {std::pair{1, 4}, {2, 2}, {3, 2}}) {
      const auto cluster = even_cluster(nodes, group);
      const TunerTable table = table_for(cluster, model);
      Predictor p(cluster, model, {});
      for (uint64_t bytes = 64; bytes <= 128 << 20; bytes *= 8) {
        const Choice& chosen = *table.find(Collective::kAllReduce, bytes);
        const double time = p.predict(chosen, Collective::kAllReduce, bytes).time_us;
        for (const Algorithm* a : algorithms_for(*cluster, Collective::kAllReduce)) {
          const Choice other{a, 128 << 10, 2, 64};
          EXPECT_LE(time, 1.1 * p.predict(other, Collective::kAllReduce, bytes).time_us)
              << chosen.algorithm->name << " was chosen before " << a->name << " for " << bytes << " B on " << nodes
              << " x " << group << " by " << model.name;
        }
      }
    }
}

TEST(Tuner, PutsCandidatesInOrderOfTheirTime) {
  Predictor p(even_cluster(4, 2), slow_wire(), {});
  const auto list = candidates(p, {}, Collective::kAllReduce, 1 << 20, {});
  ASSERT_EQ(list.size(), algorithms_for(p.cluster(), Collective::kAllReduce).size());
  for (size_t i = 1; i < list.size(); ++i) EXPECT_LE(list[i - 1].prediction.time_us, list[i].prediction.time_us);
  auto place = [&](const char* name) {
    return std::find_if(list.begin(), list.end(), [&](const Candidate& c) { return c.choice.algorithm->name == name; });
  };
  EXPECT_LT(place("two-hop"), place("flat-naive")) << "the wire is slow, and flat-naive sends most over it";
}

TEST(Tuner, ChoosesOnlyAmongTheAlgorithmsThatItIsGiven) {
  Predictor p(even_cluster(3, 2), slow_wire(), {});
  TunerSpace space;
  space.algorithms = {find_algorithm("flat"), find_algorithm("flat-naive")};
  for (const TunerRow& row : tune(p, space, {Collective::kAllReduce}).rows)
    EXPECT_THAT(std::string(row.choice.algorithm->name), HasSubstr("flat"));
}

TEST(Tuner, WalksAboutAsManySteps) {
  for (auto [nodes, group] : {std::pair{2, 2}, {8, 8}}) {
    Predictor p(even_cluster(nodes, group), NetworkModel(), {});
    TunerSpace space;
    (void)tune(p, space, {Collective::kAllReduce});
    EXPECT_LT(p.steps_walked(), 15 * space.steps) << nodes << " x " << group;
  }
}

TEST(TunerTable, FindsTheRowOfASize) {
  TunerTable table;
  const Algorithm *two_hop = find_algorithm("two-hop"), *flat = find_algorithm("flat");
  table.rows = {{Collective::kAllReduce, 100, {flat, 128, 1, 1}},
                {Collective::kAllReduce, UINT64_MAX, {two_hop, 128, 1, 1}}};
  EXPECT_EQ(table.find(Collective::kAllReduce, 0)->algorithm, flat);
  EXPECT_EQ(table.find(Collective::kAllReduce, 100)->algorithm, flat);
  EXPECT_EQ(table.find(Collective::kAllReduce, 101)->algorithm, two_hop);
  EXPECT_EQ(table.find(Collective::kBroadcast, 1), nullptr);
}

TEST(TunerTable, SurvivesBeingWrittenAndRead) {
  const TunerTable table = table_for(even_cluster(3, 2), *find_builtin_model("tcp"));
  ASSERT_FALSE(table.rows.empty());
  const auto read = parse_tuner_table(format_tuner_table(table));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, table);
}

std::string row(const std::string& inside) {
  return R"({"collective":"AllReduce","algorithm":"two-hop","chunk_bytes":131072,"channels":2,"batch":64)" + inside +
         "}";
}
struct RefusedTable {
  std::string json, names;
};
class TunerTableRefuses : public testing::TestWithParam<RefusedTable> {};
TEST_P(TunerTableRefuses, AndSaysWhichRow) {
  const auto read = parse_tuner_table(GetParam().json);
  ASSERT_FALSE(read);
  EXPECT_THAT(read.error().message, HasSubstr(GetParam().names));
}
INSTANTIATE_TEST_SUITE_P(
    Texts, TunerTableRefuses,
    testing::Values(
        RefusedTable{"", "JSON"}, RefusedTable{"[]", "JSON"}, RefusedTable{R"({"rows": 1})", "rows"},
        RefusedTable{R"({"rows": [3]})", "row 0"}, RefusedTable{R"({"rows": [{}]})", "collective"},
        RefusedTable{R"({"rows": [{"collective":"Sum","algorithm":"flat"}]})", "Sum"},
        RefusedTable{R"({"rows": [{"collective":"AllReduce","algorithm":"warp"}]})", "warp"},
        RefusedTable{R"({"rows": [)" + row(R"(,"max_bytes":5)") + "]}", "max_bytes"},
        RefusedTable{R"({"rows": [)" + row(R"(,"max_bytes":-5)") + "]}", "max_bytes"},
        RefusedTable{R"({"rows": [)" + row(R"(,"max_bytes":9)") + "," + row(R"(,"max_bytes":9)") + "," + row("") + "]}",
                     "row 1"},
        RefusedTable{
            R"({"rows": [{"collective":"AllReduce","algorithm":"flat","chunk_bytes":1,"channels":1,"batch":1}]})",
            "chunk_bytes"},
        RefusedTable{
            R"({"rows": [{"collective":"AllReduce","algorithm":"flat","chunk_bytes":128,"channels":99,"batch":1}]})",
            "channels"},
        RefusedTable{R"({"rows": [{"collective":"AllReduce","algorithm":"flat","chunk_bytes":128,"channels":1}]})",
                     "batch"}));

TEST(TunerTableText, IsRefusedWhereItIsNestedTooDeepForTheStack) {
  const std::string deep(1'000'000, '['), end(1'000'000, ']');
  EXPECT_FALSE(parse_tuner_table(R"({"rows": [{"collective": "AllReduce", "algorithm": "two-hop", "chunk_bytes": )" +
                                 deep + end + R"(, "channels": 1, "batch": 1}]})"));
}

}  // namespace
}  // namespace twohop
