// Do ranks connect over InfiniBand and over RoCE of every address family, and say what is wrong where they cannot? On
// the emulated device.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../captured_log.hpp"
#include "two_ranks.hpp"

namespace twohop::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

using SoftnicLinks = WithSettings;

const std::vector<LinkPlan>& kLinks = kOneLinkEachWay;

/// One put each way, and all is well.
void exchange(Rank& r) {
  Endpoint& e = *r.endpoint;
  const PutRun run{r.source(1000).data(), 0, 1000};
  e.put(0, {1, 2}, {&run, 1});
  ASSERT_TRUE(e.flush());
  poll_until(e, [&] { return e.in(0).arrived == 1; });
  e.release(0);
  ASSERT_TRUE(e.flush());
  poll_until(e, [&] { return e.out(0).consumed == 1; });
  EXPECT_TRUE(e.drain(in_seconds(10)));
}

TEST_F(SoftnicLinks, GoOverInfiniBandByLid) {
  use("link=ib");
  const CapturedLog log;
  run_cluster(rails(""), 2, kLinks, exchange);
  EXPECT_THAT(log.text(), AllOf(HasSubstr("InfiniBand"), HasSubstr("LID 1 to softnic0:1 LID 1")));
}

TEST_F(SoftnicLinks, GoOverHostsWithoutIpv4) {
  use("gids=ll1+ll2+ip61+ip62");
  const CapturedLog log;
  run_cluster(rails("softnic0"), 2, kLinks, exchange);
  EXPECT_THAT(log.text(), AllOf(HasSubstr("GID 3 RoCE v2 fd00:0:0:40::1 to softnic0:1 fd00:0:0:40::1"),
                                HasSubstr("softnic0:1 (RoCE, MTU 4096) has the GIDs 0: fe80::")));
}

TEST_F(SoftnicLinks, SkipEmptySlotsOfTheTableSilently) {
  use("gids=none+none+none+none+ll1+ll2+ip1+ip2");
  const CapturedLog log;
  run_cluster(rails("softnic0"), 2, kLinks, exchange);
  EXPECT_THAT(log.text(), AllOf(HasSubstr("GID 7 RoCE v2 10.64.0.1"), Not(HasSubstr("WARN"))));
}

TEST_F(SoftnicLinks, JoinOnlyRailsThatReachEachOther) {
  use("devices=2,route=0");
  const CapturedLog log;
  run_cluster(rails(""), 2, {{{0, 0, 0, 1}, 1 << 16}, {{0, 0, 1, 0}, 1 << 16}}, exchange);
  EXPECT_THAT(log.text(), Not(HasSubstr("WARN")));
}

TEST_F(SoftnicLinks, FindTheLikeRailWhereverItIsInTheList) {
  use("devices=2,route=0");
  const auto results = connect_two(rails("=softnic0,softnic1"), rails("=softnic1,softnic0"));
  EXPECT_TRUE(results[0]) << results[0].error().message;
  EXPECT_TRUE(results[1]) << results[1].error().message;
}

TEST_F(SoftnicLinks, WarnOfRailsWithoutACommonSubnet) {
  use("devices=2");
  const CapturedLog log;
  const auto results = connect_two(rails("softnic0"), rails("softnic1"));
  EXPECT_TRUE(results[0] && results[1]);
  EXPECT_THAT(log.text(), HasSubstr("softnic0:1 (10.64.0.1) and softnic1:1 of rank 1 (10.65.0.1) have no subnet in "
                                    "common: this works only if packets are routed between them"));
}

TEST_F(SoftnicLinks, SayThatLinkLocalAddressesReachOneSegmentOnly) {
  use("gids=ll1+ll2");
  const CapturedLog log;
  const auto results = connect_two(rails("softnic0"), rails("softnic0"));
  EXPECT_TRUE(results[0] && results[1]);
  EXPECT_THAT(log.text(), AllOf(HasSubstr("have link-local addresses only: this works only if both are in one segment"),
                                Not(HasSubstr("subnet in common"))));
}

TEST_F(SoftnicLinks, WarnOfARailThatReachesNobody) {
  use("devices=3");
  const CapturedLog log;
  connect_two(rails("=softnic0,softnic1"), rails("=softnic0,softnic2"));
  EXPECT_THAT(log.text(),
              HasSubstr("rail 1 (softnic1:1) carries nothing: no port of the other ranks lies in its subnet"));
}

TEST_F(SoftnicLinks, NeverConnectInfiniBandToRoce) {
  use("link=ib+eth");
  const auto results = connect_two(rails("softnic0"), rails("softnic1"));
  ASSERT_FALSE(results[0]);
  ASSERT_FALSE(results[1]);
  EXPECT_THAT(
      results[0].error().message,
      HasSubstr("its softnic1:1 is RoCE, softnic0:1 here is InfiniBand: these cannot be connected; name ports of "
                "one kind on all hosts in TWOHOP_IB_HCA"));
  EXPECT_THAT(results[1].error().message, HasSubstr("its softnic0:1 is InfiniBand, softnic1:1 here is RoCE"));
}

TEST_F(SoftnicLinks, LeaveRoceOutWhereInfiniBandIsUp) {
  use("devices=3,link=eth+ib+eth");
  const CapturedLog log;
  auto endpoint = make_test_endpoint(rails(""), 0, random_secret());
  ASSERT_TRUE(endpoint) << endpoint.error().message;
  const auto& found = dynamic_cast<verbs::VerbsEndpoint&>(**endpoint).rails();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].name, "softnic1:1");
  EXPECT_THAT(log.text(), HasSubstr("softnic0:1 is RoCE, softnic1:1 is InfiniBand: these are never mixed"));
}

TEST_F(SoftnicLinks, SayWhichAddressesDoNotFitTogether) {
  use("gids=ip2+ip62");
  const Net four{"softnic", [](verbs::VerbsConfig& c) { c.rails.max_rails = 1, c.rails.gid.index = 0; }};
  const Net six{"softnic", [](verbs::VerbsConfig& c) { c.rails.max_rails = 1, c.rails.gid.index = 1; }};
  const auto results = connect_two(four, six);
  ASSERT_FALSE(results[0]);
  EXPECT_THAT(results[0].error().message,
              HasSubstr("no GID of softnic0:1 here (0: 10.64.0.1 (RoCE v2, softnet0)) has the RoCE version and address "
                        "family of one of softnic0:1 there (-1: fd00:0:0:40::1 (RoCE v2))"));
}

}  // namespace
}  // namespace twohop::test
