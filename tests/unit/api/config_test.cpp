// Which configurations are accepted, and what do the fields mean that they leave open?
#include "api/config.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "collectives/plan/algorithm.hpp"

namespace twohop {
namespace {

using testing::HasSubstr;

twohopConfig_t initial() {
  return TWOHOP_CONFIG_INITIALIZER;
}

void expect_refused(const twohopConfig_t& config, const std::string& text) {
  auto resolved = resolve_config(&config, Options{});
  ASSERT_FALSE(resolved);
  EXPECT_EQ(resolved.error().code, twohopInvalidArgument);
  EXPECT_THAT(resolved.error().message, HasSubstr(text));
}

TEST(Config, TakesWhatItLeavesOpenFromTheOptions) {
  Options options;
  options.algo = "flat";
  options.nchannels = 3;
  options.ranks_per_node = 5;
  options.timeout_s = 7;
  const twohopConfig_t config = initial();
  for (const twohopConfig_t* given : {static_cast<const twohopConfig_t*>(nullptr), &config}) {
    auto resolved = resolve_config(given, options);
    ASSERT_TRUE(resolved);
    EXPECT_EQ(resolved->algo, "flat");
    EXPECT_EQ(resolved->name, "");
    EXPECT_EQ(resolved->nchannels, 3);
    EXPECT_EQ(resolved->ranks_per_node, 5);
    EXPECT_EQ(resolved->timeout_s, 7);
  }
}

TEST(Config, OverridesTheOptions) {
  twohopConfig_t config = initial();
  config.algo = "two-hop";
  config.comm_name = "gradients";
  config.nchannels = 16;
  config.ranks_per_node = 2;
  config.timeout_s = 0.5;
  auto resolved = resolve_config(&config, Options{});
  ASSERT_TRUE(resolved);
  EXPECT_EQ(resolved->algo, "two-hop");
  EXPECT_EQ(resolved->name, "gradients");
  EXPECT_EQ(resolved->nchannels, 16);
  EXPECT_EQ(resolved->ranks_per_node, 2);
  EXPECT_EQ(resolved->timeout_s, 0.5);
}

TEST(Config, RefusesBadFieldsByName) {
  auto with = [](auto field, auto value) {
    twohopConfig_t config = initial();
    config.*field = value;
    return config;
  };
  for (int bad : {-1, 17, INT32_MAX}) expect_refused(with(&twohopConfig_t::nchannels, bad), "config.nchannels=");
  for (int bad : {-1, 1025}) expect_refused(with(&twohopConfig_t::ranks_per_node, bad), "config.ranks_per_node=");
  for (double bad : {-1.0, 1e9, std::nan(""), HUGE_VAL})
    expect_refused(with(&twohopConfig_t::timeout_s, bad), "config.timeout_s=");
  for (const char* bad : {"", "ring", "two-hop ", "TWO-HOP"})
    expect_refused(with(&twohopConfig_t::algo, bad), "accepted are auto, ");
  const std::string long_name(256, 'x');
  expect_refused(with(&twohopConfig_t::comm_name, long_name.c_str()), "config.comm_name");
}

TEST(Config, AndTheVariableAcceptEveryAlgorithmOfTheTable) {
  std::vector<std::string> names{"auto"};
  for (const Algorithm& a : algorithms()) names.emplace_back(a.name);
  for (const std::string& name : names) {
    twohopConfig_t config = initial();
    config.algo = name.c_str();
    EXPECT_TRUE(resolve_config(&config, Options{})) << name;
    EXPECT_TRUE(parse_options({"TWOHOP_ALGO=" + name}, nullptr)) << name;
  }
}

TEST(Config, RefusesAStructThatWasNeverInitialised) {
  twohopConfig_t config;
  std::memset(&config, 0, sizeof config);
  expect_refused(config, "config.size=0");
  std::memset(&config, 0xaa, sizeof config);
  expect_refused(config, "TWOHOP_CONFIG_INITIALIZER");
  config = initial();
  config.version = 0;
  expect_refused(config, "config.version=0");
  config.version = (TWOHOP_MAJOR + 1) * 10000;
  expect_refused(config, "config.version=");
}

/// A config of a later version, with one more field.
struct LargerConfig {
  twohopConfig_t known;
  int64_t newer;
};

TEST(Config, OfANewerCallerIsAcceptedWhileItsNewFieldsAreUnused) {
  LargerConfig config{initial(), 0};
  config.known.size = sizeof config;
  config.known.version += 100;
  config.known.nchannels = 4;
  auto resolved = resolve_config(&config.known, Options{});
  ASSERT_TRUE(resolved);
  EXPECT_EQ(resolved->nchannels, 4);
  config.newer = 1;
  expect_refused(config.known, "load a newer library");
}

}  // namespace
}  // namespace twohop
