// Does the options table take what is right, and say clearly what is wrong?
#include "base/options.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include "base/log.hpp"

namespace twohop {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

std::string refusal(const std::string& entry) {
  Result<Options> parsed = parse_options({entry}, nullptr);
  return parsed ? "" : parsed.error().message;
}

TEST(Options, AreTheDefaultsWhenNothingIsSet) {
  Result<Options> parsed = parse_options({"HOME=/root", "PATH=", "TWOHOP"}, nullptr);
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->algo, "auto");
  EXPECT_EQ(parsed->nchannels, 0);
  EXPECT_EQ(parsed->buff_bytes, 4 << 20);
}

TEST(Options, TakeEveryKindOfValue) {
  Result<Options> parsed = parse_options({"TWOHOP_ALGO=two-hop", "TWOHOP_NCHANNELS=16", "TWOHOP_BUFFSIZE=8M",
                                          "TWOHOP_CHUNK_BYTES=4096", "TWOHOP_HOSTID=a=b", "TWOHOP_DEBUG=info"},
                                         nullptr);
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(parsed->algo, "two-hop");
  EXPECT_EQ(parsed->nchannels, 16);
  EXPECT_EQ(parsed->buff_bytes, 8 << 20);
  EXPECT_EQ(parsed->chunk_bytes, 4096);
  EXPECT_EQ(parsed->host_id, "a=b");
  EXPECT_EQ(parsed->debug, "INFO");
}

TEST(Options, TakeSizesWithSuffixes) {
  EXPECT_EQ(parse_options({"TWOHOP_BUFFSIZE=128K"}, nullptr)->buff_bytes, 128 << 10);
  EXPECT_EQ(parse_options({"TWOHOP_BUFFSIZE=1g"}, nullptr)->buff_bytes, 1 << 30);
}

TEST(Options, RefuseAValueByNameValueRangeAndDefault) {
  EXPECT_EQ(refusal("TWOHOP_NCHANNELS=99"), "TWOHOP_NCHANNELS=99: accepted are 0 to 16; unset it for the default (0)");
  EXPECT_EQ(refusal("TWOHOP_ALGO=ring"),
            "TWOHOP_ALGO=ring: accepted are auto, two-hop, two-hop-tree, two-hop-log, node-ring, node-ring-tree, "
            "node-ring-log, one-shot, flat, flat-naive, flat-tree; unset it for the default (auto)");
  EXPECT_EQ(refusal("TWOHOP_CHUNK_BYTES=64"),
            "TWOHOP_CHUNK_BYTES=64: accepted are 128 to 64M bytes (suffixes K, M, G); unset it for the default (128K)");
}

TEST(Options, RefuseNumbersThatOnlyBeginAsNumbers) {
  for (const char* value : {"2x", "0x2", " 2", "2 ", "-1", "+2", "1e1", "2K", "99999999999999999999", "two", "1,2"})
    EXPECT_THAT(refusal(std::string("TWOHOP_NCHANNELS=") + value), HasSubstr("TWOHOP_NCHANNELS=")) << value;
  for (const char* value : {"9999999999999G", "4MB", "K", "4T", "-4M"})
    EXPECT_THAT(refusal(std::string("TWOHOP_BUFFSIZE=") + value), HasSubstr("TWOHOP_BUFFSIZE=")) << value;
}

TEST(Options, TakeMinusOneOnlyWhereItMeansSomething) {
  EXPECT_EQ(parse_options({"TWOHOP_IB_GID_INDEX=-1"}, nullptr)->ib_gid_index, -1);
  EXPECT_THAT(refusal("TWOHOP_IB_GID_INDEX=-2"), HasSubstr("accepted are -1 to 255"));
  EXPECT_THAT(refusal("TWOHOP_NRAILS=-1"), HasSubstr("accepted are 0 to 16"));
}

TEST(Options, RefusePartsOfAChoice) {
  for (const char* value : {"fla", "flat,", "auto, two-hop", ",", "flat ", "auto,flat", "^auto", "^", "^flat,",
                            "^,flat", "flat,^flat-naive", "^^flat", ",flat"})
    EXPECT_THAT(refusal(std::string("TWOHOP_ALGO=") + value), HasSubstr("accepted are")) << value;
}

TEST(Options, TakeListsOfAlgorithms) {
  EXPECT_EQ(parse_options({"TWOHOP_ALGO=Two-Hop,flat"}, nullptr)->algo, "two-hop,flat");
  EXPECT_EQ(parse_options({"TWOHOP_ALGO=^FLAT-naive,one-shot"}, nullptr)->algo, "^flat-naive,one-shot");
}

TEST(Options, DoNotPrintTheSecretInARefusal) {
  EXPECT_THAT(refusal("TWOHOP_JOB_SECRET=" + std::string(2000, 's')),
              AllOf(HasSubstr("TWOHOP_JOB_SECRET (2000 characters)"), Not(HasSubstr("sss"))));
}

TEST(Options, CountAVariableSetToNothingAsUnset) {
  Result<Options> parsed = parse_options({"TWOHOP_NCHANNELS=", "TWOHOP_ALGO="}, nullptr);
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->nchannels, 0);
}

TEST(Options, ReturnTheFirstOfSeveralErrors) {
  Result<Options> parsed = parse_options({"TWOHOP_SPIN=x", "TWOHOP_YIELDS=y"}, nullptr);
  ASSERT_FALSE(parsed);
  EXPECT_EQ(parsed.error().code, twohopInvalidArgument);
  EXPECT_THAT(parsed.error().message, HasSubstr("TWOHOP_SPIN"));
}

TEST(Options, WarnOfAnUnknownNameWithTheNearestOne) {
  std::vector<std::string> warnings;
  ASSERT_TRUE(parse_options({"TWOHOP_NCHANELS=4", "TWOHOP_TIMEOUT=3", "TWOHOP_SPIN=3"}, &warnings));
  EXPECT_THAT(warnings, ElementsAre(AllOf(HasSubstr("TWOHOP_NCHANELS"), HasSubstr("nearest one is TWOHOP_NCHANNELS")),
                                    AllOf(HasSubstr("TWOHOP_TIMEOUT "), HasSubstr("TWOHOP_TIMEOUT_S"))));
}

TEST(Options, SurviveStrangeEnvironments) {
  std::vector<std::string> warnings;
  Result<Options> parsed = parse_options(
      {"", "=", "TWOHOP_", "TWOHOP_=", "TWOHOP_SPIN", "TWOHOP_" + std::string(100'000, 'X') + "=1"}, &warnings);
  EXPECT_TRUE(parsed);
  EXPECT_EQ(warnings.size(), 3u);
}

TEST(Options, TableHasOneFullRowPerVariable) {
  std::string markdown = options_table();
  for (const OptionHelp& row : option_help()) {
    EXPECT_TRUE(row.name.starts_with("TWOHOP_")) << row.name;
    EXPECT_FALSE(row.help.empty() || row.accepted.empty()) << row.name;
    EXPECT_THAT(markdown, HasSubstr("| `" + row.name + "` |"));
  }
}

TEST(Options, EveryDefaultIsAcceptedAsAValue) {
  for (const OptionHelp& row : option_help()) EXPECT_EQ(refusal(row.name + "=" + row.default_value), "");
}

// The snapshot is taken once per process, so these look at it from fresh processes.
class OptionsSnapshot : public testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(OptionsSnapshot, WarnsOnceOfAnUnknownName) {
  auto program = [] {
    setenv("TWOHOP_ALGOO", "flat", 1);
    bool first = options().has_value(), second = options().has_value();
    exit(first && second ? 0 : 1);
  };
  EXPECT_EXIT(program(), testing::ExitedWithCode(0), "^[^\n]* twohop WARN TWOHOP_ALGOO [^\n]*\n$");
}

TEST_F(OptionsSnapshot, KeepsTheLogWorkingWhileAnotherVariableIsWrong) {
  auto program = [] {
    setenv("TWOHOP_SPIN", "many", 1);
    setenv("TWOHOP_DEBUG", "INFO", 1);
    log_info("still here");
    exit(options() ? 1 : 0);
  };
  EXPECT_EXIT(program(), testing::ExitedWithCode(0), "twohop INFO still here");
}

// ---- Launcher variables ------------------------------------------------------------------------------------------

Environment torchrun() {
  return {"RANK=1", "WORLD_SIZE=4", "LOCAL_RANK=1", "MASTER_ADDR=127.0.0.1", "MASTER_PORT=29500"};
}

std::string launcher_refusal(const std::string& without, const std::string& instead = "") {
  Environment environment = torchrun();
  std::erase_if(environment, [&](const std::string& entry) { return entry.starts_with(without + "="); });
  if (!instead.empty()) environment.push_back(instead);
  Result<LauncherEnv> parsed = parse_launcher_env(environment);
  return parsed ? "" : parsed.error().message;
}

TEST(LauncherEnv, IsReadAsTorchrunSetsIt) {
  Result<LauncherEnv> parsed = parse_launcher_env(torchrun());
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(parsed->rank, 1);
  EXPECT_EQ(parsed->world_size, 4);
  EXPECT_EQ(parsed->local_rank, 1);
  EXPECT_EQ(parsed->master_addr, "127.0.0.1");
  EXPECT_EQ(parsed->master_port, 29500);
}

TEST(LauncherEnv, NamesWhatIsMissing) {
  for (const char* name : {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"})
    EXPECT_THAT(launcher_refusal(name), HasSubstr(std::string(name) + " is not set"));
  EXPECT_THAT(launcher_refusal("LOCAL_RANK"), IsEmpty());
}

TEST(LauncherEnv, NamesWhatIsMalformed) {
  EXPECT_THAT(launcher_refusal("RANK", "RANK=4"), HasSubstr("RANK=4: accepted are 0 to 3"));
  EXPECT_THAT(launcher_refusal("RANK", "RANK=-1"), HasSubstr("RANK=-1"));
  EXPECT_THAT(launcher_refusal("WORLD_SIZE", "WORLD_SIZE=0"), HasSubstr("WORLD_SIZE=0"));
  EXPECT_THAT(launcher_refusal("MASTER_PORT", "MASTER_PORT=65536"), HasSubstr("MASTER_PORT=65536"));
  EXPECT_THAT(launcher_refusal("LOCAL_RANK", "LOCAL_RANK=x"), HasSubstr("LOCAL_RANK=x"));
}

TEST(LauncherEnv, NeedsNoMasterPortWhereTheOwnPortIsSet) {
  EXPECT_THAT(launcher_refusal("MASTER_PORT", "TWOHOP_PORT=7000"), IsEmpty());
}

TEST(LauncherEnv, NeedsAPortAfterMasterPort) {
  for (const char* port : {"0", "65535"})
    EXPECT_THAT(launcher_refusal("MASTER_PORT", std::string("MASTER_PORT=") + port),
                HasSubstr(std::string("MASTER_PORT=") + port +
                          ": accepted are 1 to 65534; the launcher sets it, and rank 0 listens on MASTER_PORT + 1"));
  EXPECT_THAT(launcher_refusal("MASTER_PORT", "MASTER_PORT=65534"), IsEmpty());
}

TEST(OptionValues, TellWhereEachComesFrom) {
  const auto values =
      option_values({"TWOHOP_NRAILS=3", "TWOHOP_SPIN=", "TWOHOP_IB_SL=99", "TWOHOP_JOB_SECRET=hunter2"});
  const auto of = [&](const std::string& name) {
    return *std::find_if(values.begin(), values.end(), [&](const OptionValue& v) { return v.name == name; });
  };
  EXPECT_EQ(values.size(), option_help().size());
  EXPECT_EQ(of("TWOHOP_NRAILS").value, "3");
  EXPECT_TRUE(of("TWOHOP_NRAILS").from_environment);
  EXPECT_EQ(of("TWOHOP_SPIN").value, "16");
  EXPECT_FALSE(of("TWOHOP_SPIN").from_environment);
  EXPECT_THAT(of("TWOHOP_IB_SL").problem, HasSubstr("accepted are 0 to 15"));
  EXPECT_THAT(of("TWOHOP_JOB_SECRET").value, AllOf(HasSubstr("not shown"), Not(HasSubstr("hunter2"))));
}

}  // namespace
}  // namespace twohop
