// The symptoms that users bring, made on the emulated device: does our message say what a helper would have to ask?
#include <gmock/gmock.h>
#include <sys/resource.h>

#include <filesystem>

#include "../captured_log.hpp"
#include "base/options.hpp"
#include "transport/transport.hpp"
#include "two_ranks.hpp"

namespace twohop::test {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

using SoftnicErrors = WithSettings;

/// What connecting says on the rank that fails by itself.
std::string failure(const std::string& settings) {
  use_softnic(settings);
  const auto results = connect_two(rails("softnic0"), rails("softnic0"));
  std::string text;
  for (const auto& r : results)
    if (!r && (r.error().sys_errno != 0 || text.empty())) text = r.error().message;
  return text;
}

/// A put from rank 0 that fails; the message. `proven`: one has gone well before.
std::string broken_put(const std::string& settings, bool proven, uint8_t timeout = 16) {
  use_softnic(settings);
  std::string message;
  const Net net{"softnic", [timeout](verbs::VerbsConfig& c) {
                  c.rails.max_rails = 1;
                  c.tuning.timeout = timeout;
                  c.tuning.retry_count = 2;
                }};
  std::latch done(2);
  run_cluster(net, 2, kOneLinkEachWay, [&](Rank& r) {
    Endpoint& e = *r.endpoint;
    if (r.rank == 0) {
      const PutRun run{r.source(100).data(), 0, 100};
      if (proven) {
        e.put(0, {1, 2}, {&run, 1});
        EXPECT_TRUE(e.flush());
        poll_until(e, [&] { return e.out(0).sent == 1; });
      }
      for (int i = 0; i < 3; ++i) e.put(0, {1, 2}, {&run, 1});
      EXPECT_TRUE(e.flush());
      message = poll_until_error(e, 10).message;
    }
    done.arrive_and_wait();
  });
  return message;
}

TEST_F(SoftnicErrors, NoReplyAtOnceNamesGidAndRoute) {
  EXPECT_THAT(broken_put("fail=dev0:write:1:RETRY_EXC_ERR", false),
              HasSubstr("there was never a reply from rank 1 (GID 3 RoCE v2 10.64.0.1 to softnic0:1 10.64.0.1): the "
                        "route between these two addresses is broken"));
}

TEST_F(SoftnicErrors, NoReplyLaterSpeaksOfThePeerAndTheLink) {
  EXPECT_THAT(broken_put("fail=dev0:write:3:RETRY_EXC_ERR", true),
              AllOf(HasSubstr("the peer replied before and does no more"), Not(HasSubstr("never a reply"))));
}

TEST_F(SoftnicErrors, ATimeoutThatABusyHostMayNeedIsTheLikelyCause) {
  EXPECT_THAT(broken_put("fail=dev0:write:1:RETRY_EXC_ERR", false, 7),
              AllOf(HasSubstr("raise TWOHOP_IB_TIMEOUT (it is 7;"), HasSubstr("GID 3 RoCE v2 10.64.0.1")));
}

TEST_F(SoftnicErrors, TheFirstFailureIsTheCauseAndTheRestIsCounted) {
  const std::string message = broken_put("fail=dev0:write:3:RETRY_EXC_ERR", true);
  EXPECT_THAT(message, AllOf(HasSubstr("(status 12, vendor"), Not(HasSubstr("status 5")), Not(HasSubstr("opcode"))));
  EXPECT_THAT(message, ContainsRegex("[1-9][0-9]* further requests were flushed"));
}

TEST_F(SoftnicErrors, ARefusedCompletionQueueIsHeldAgainstLimits) {
  EXPECT_THAT(
      failure("refuse=create_cq:1:ENOMEM"),
      AllOf(HasSubstr("cannot create a completion queue of"), HasSubstr("this process has 0 queue pairs of 4096"),
            HasSubstr("memory regions of 16384"), HasSubstr("RLIMIT_MEMLOCK"), HasSubstr("TWOHOP_NCHANNELS")));
}

TEST_F(SoftnicErrors, ARefusedQueuePairIsHeldAgainstLimits) {
  EXPECT_THAT(failure("refuse=create_qp:1:ENOMEM"),
              AllOf(HasSubstr("cannot create a queue pair of"), HasSubstr("1 completion queues of 4096")));
}

TEST_F(SoftnicErrors, AGidWhoseInterfaceIsElsewhereIsNamedWithIt) {
  EXPECT_THAT(failure("refuse=to_rtr:1:ENODEV"),
              AllOf(HasSubstr("cannot go to RTR: No such device"),
                    HasSubstr("the interface of GID 3 (10.64.0.1) is softnet0, which is down or not in this network "
                              "namespace; GIDs of softnic0:1 whose interface is here: none")));
}

TEST_F(SoftnicErrors, AGidThatHasBecomeEmptyIsNamedWithItsInterface) {
  EXPECT_THAT(failure("refuse=to_rtr:1:ENODATA"),
              HasSubstr("GID index 3 of softnic0:1 has become empty: its interface softnet0 has lost its address"));
}

TEST_F(SoftnicErrors, APeerThatDoesNotResolveIsNamedWithBothAddresses) {
  EXPECT_THAT(failure("refuse=to_rtr:1:ETIMEDOUT"),
              AllOf(HasSubstr("GID 3 RoCE v2 10.64.0.1 to softnic0:1 10.64.0.1"), HasSubstr("Connection timed out"),
                    HasSubstr("can this host ping it over that interface")));
}

TEST_F(SoftnicErrors, TooManyOpenFilesAreCounted) {
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_THAT(failure("refuse=create_comp_channel:1:EMFILE"),
              AllOf(ContainsRegex("[1-9][0-9]* files are open"),
                    HasSubstr(fmt::format("the limit (RLIMIT_NOFILE) is {}", limit.rlim_cur))));
}

TEST_F(SoftnicErrors, DevicesThatCannotBeOpenedAreCounted) {
  const std::string message = failure("devices=2,refuse=open_device:1:EACCES,refuse=open_device:2:EACCES");
  EXPECT_THAT(message, AllOf(HasSubstr("2 RDMA devices, none of which can be opened"), HasSubstr("softnic0"),
                             HasSubstr("/dev/infiniband/uverbs*"), HasSubstr("Permission denied")));
}

TEST_F(SoftnicErrors, WhatWasFoundAndWhichRuleRemovedItIsSaid) {
  use("devices=2,down=dev1@0s");
  auto endpoint = make_test_endpoint(rails("^softnic0"), 0, random_secret());
  ASSERT_FALSE(endpoint);
  EXPECT_EQ(endpoint.error().message,
            "no usable RDMA port: softnic0:1 is not in TWOHOP_IB_HCA; softnic1:1 is not active (port state 1): check "
            "cable and switch");
}

TEST_F(SoftnicErrors, ANameThatIsNoPortIsWarnedAbout) {
  use("devices=2");
  const CapturedLog log;
  ASSERT_TRUE(make_test_endpoint(rails("=softnic1,mlx5_14"), 0, random_secret()));
  EXPECT_THAT(log.text(), HasSubstr("TWOHOP_IB_HCA: \"mlx5_14\" is no port of this host; there are softnic0:1, "
                                    "softnic1:1"));
}

TEST(DevicesInSysfs, AreCountedAndNamed) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::temp_directory_path() / fmt::format("twohop-sysfs-{}", ::getpid());
  EXPECT_EQ(verbs::devices_in_sysfs(folder.string()), "");
  fs::create_directories(folder / "mlx5_1");
  fs::create_directories(folder / "mlx5_0");
  EXPECT_EQ(verbs::devices_in_sysfs(folder.string()), "2 RDMA devices (mlx5_0, mlx5_1)");
  fs::remove_all(folder);
}

}  // namespace
}  // namespace twohop::test
