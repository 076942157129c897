// Is a network model read and written faithfully, and what is refused? What does loss cost?
#include "collectives/plan/model/network_model.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace twohop {
namespace {

using testing::HasSubstr;

TEST(NetworkModel, SurvivesBeingWrittenAndRead) {
  NetworkModel model;
  model.name = "two racks \"A\" and B";
  double value = 1.5;
  for (const ModelField& f : model_fields()) {
    if (f.flag) model.*f.flag = !(model.*f.flag);
    if (f.whole) model.*f.whole = 7;
    if (f.real) model.*f.real = f.max < 1 ? 0.0123 : f.min + (value += 1.0 / 3);
  }
  const auto read = parse_model(format_model(model));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, model);
}

TEST(NetworkModel, KeepsDefaultsForMembersThatAreNotNamed) {
  const auto read = parse_model(R"({"latency_us": 7})");
  ASSERT_TRUE(read) << read.error().message;
  NetworkModel expected;
  expected.latency_us = 7;
  EXPECT_EQ(*read, expected);
}

TEST(NetworkModel, HasDefaultsInsideTheirRanges) {
  for (const auto& model : builtin_models()) {
    const auto read = parse_model(format_model(model));
    ASSERT_TRUE(read) << model.name << ": " << read.error().message;
    EXPECT_EQ(*read, model);
  }
}

struct Refused {
  const char *json, *names;
};
class NetworkModelRefuses : public testing::TestWithParam<Refused> {};
TEST_P(NetworkModelRefuses, AndNamesTheMember) {
  const auto read = parse_model(GetParam().json);
  ASSERT_FALSE(read);
  EXPECT_THAT(read.error().message, HasSubstr(GetParam().names));
}
INSTANTIATE_TEST_SUITE_P(Texts, NetworkModelRefuses,
                         testing::Values(Refused{"", "JSON"}, Refused{"[1]", "JSON"}, Refused{"{\"rails\": ", "JSON"},
                                         Refused{R"({"railz": 1})", "railz"}, Refused{R"({"rails": 0})", "rails"},
                                         Refused{R"({"rails": 1.5})", "rails"}, Refused{R"({"rails": "8"})", "rails"},
                                         Refused{R"({"loss": -0.1})", "loss"}, Refused{R"({"loss": 1e999})", "JSON"},
                                         Refused{R"({"go_back_n": 1})", "go_back_n"}, Refused{R"({"name": 3})", "name"},
                                         Refused{R"({"rail_gbytes_per_s": 0})", "rail_gbytes_per_s"},
                                         Refused{R"({"latency_us": null})", "latency_us"}));

TEST(NetworkModel, RefusesWhatIsNestedTooDeepForTheStack) {
  const std::string deep(1'000'000, '['), end(1'000'000, ']');
  EXPECT_FALSE(parse_model("{\"rails\": " + deep + end + "}"));
}

TEST(Loss, FallsWithTheWindowUnderGoBackN) {
  NetworkModel model;
  model.loss = 1e-3;
  EXPECT_DOUBLE_EQ(loss_share(model, 1), 0.999);
  double last = 1;
  for (double window : {1.0, 10.0, 100.0, 1000.0}) {
    const double share = loss_share(model, window);
    EXPECT_LT(share, last);
    last = share;
  }
  EXPECT_NEAR(loss_share(model, 1000), 0.5, 0.001);  // every thousandth is lost and costs a thousand
}

TEST(Loss, CostsOnlyWhatIsLostWithoutGoBackN) {
  NetworkModel model;
  model.loss = 0.01;
  model.go_back_n = false;
  EXPECT_DOUBLE_EQ(loss_share(model, 1000), 0.99);
  model.loss = 0;
  EXPECT_DOUBLE_EQ(loss_share(model, 1000), 1);
}

}  // namespace
}  // namespace twohop
