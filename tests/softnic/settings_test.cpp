// Is every word of SOFTNIC read as documented, and every wrong one refused by name?
#include "softnic/settings.hpp"

#include <gtest/gtest.h>

#include "fabric.hpp"

namespace softnic_test {
namespace {

softnic::Settings read(const char* text) {
  std::string error;
  auto settings = softnic::parse_settings(text, &error);
  EXPECT_TRUE(settings) << error;
  return settings.value_or(softnic::Settings{});
}

TEST(Settings, AreReadInTheirUnits) {
  auto s =
      read("devices=3,host=5,rate=2.5g,latency=1.5us,doorbell=300ns,loss=0.1%,seed=9,mtu=1024,memlock=64k,domain=x-1");
  EXPECT_EQ(s.devices, 3u);
  EXPECT_EQ(s.host, 5u);
  EXPECT_DOUBLE_EQ(s.bits_per_s, 2.5e9);
  EXPECT_EQ(s.latency_ns, 1500u);
  EXPECT_EQ(s.doorbell_ns, 300u);
  EXPECT_DOUBLE_EQ(s.loss, 0.001);
  EXPECT_EQ(s.seed, 9u);
  EXPECT_EQ(s.mtu_bytes, 1024);
  EXPECT_EQ(s.memlock_bytes, 65536u);
  EXPECT_EQ(s.domain, "x-1");
}

TEST(Settings, ListsOfChangesAndFaults) {
  auto s = read(
      "down=dev0@3s,up=dev0@5s,fail=dev1:qp-send:100:REM_OP_ERR,fail=dev0:read:1:REM_ACCESS_ERR:done,gids=ip2+ll1");
  EXPECT_TRUE(s.corruptions.empty());
  s.corruptions = read("corrupt=dev1:write:7").corruptions;
  ASSERT_EQ(s.corruptions.size(), 1u);
  EXPECT_EQ(s.corruptions[0].device, 1u);
  EXPECT_EQ(s.corruptions[0].nth, 7u);
  EXPECT_TRUE(s.starvations.empty());
  s.starvations = read("starve=dev2:recv:9").starvations;
  ASSERT_EQ(s.starvations.size(), 1u);
  EXPECT_EQ(s.starvations[0].device, 2u);
  EXPECT_EQ(s.starvations[0].nth, 9u);
  ASSERT_EQ(s.port_changes.size(), 2u);
  EXPECT_FALSE(s.port_changes[0].up);
  EXPECT_EQ(s.port_changes[1].at_ns, 5'000'000'000u);
  ASSERT_EQ(s.faults.size(), 2u);
  EXPECT_EQ(s.faults[0].nth, 100u);
  EXPECT_EQ(s.faults[0].status, IBV_WC_REM_OP_ERR);
  EXPECT_FALSE(s.faults[0].done);
  EXPECT_EQ(s.faults[1].status, IBV_WC_REM_ACCESS_ERR);
  EXPECT_TRUE(s.faults[1].done);
  EXPECT_EQ(s.gids, (std::vector{softnic::GidKind::kIpV2, softnic::GidKind::kLinkLocalV1}));
}

TEST(Settings, SayWhatKindOfNetworkItIs) {
  auto s = read("link=ib+eth,nets=1+0,route=0,gids=none+ip62,refuse=create_cq:2:ENOMEM,refuse=to_rtr:1:ENODEV");
  EXPECT_TRUE(s.is_infiniband(0));
  EXPECT_FALSE(s.is_infiniband(1));
  EXPECT_FALSE(s.is_infiniband(5));  // as the last one
  EXPECT_EQ(s.net_of(0), 1u);
  EXPECT_EQ(s.net_of(1), 0u);
  EXPECT_EQ(s.net_of(2), 2u);
  EXPECT_FALSE(s.route);
  EXPECT_EQ(s.gids, (std::vector{softnic::GidKind::kEmpty, softnic::GidKind::kIpv6V2}));
  ASSERT_EQ(s.refusals.size(), 2u);
  EXPECT_EQ(s.refusals[0].what, softnic::Refusal::kCreateCq);
  EXPECT_EQ(s.refusals[0].nth, 2u);
  EXPECT_EQ(s.refusals[1].error, ENODEV);
}

TEST(Settings, EmptyMeansTheDefaults) {
  EXPECT_EQ(read("").devices, 2u);
  EXPECT_EQ(read(",,").mtu_bytes, 4096);
}

TEST(Settings, RefuseWhatIsWrongAndSayWhatIsAccepted) {
  for (const char* text : {"devices=0",
                           "devices=9",
                           "link=",
                           "link=ib+roce",
                           "nets=1+1",
                           "nets=8",
                           "route=2",
                           "refuse=create_cq:0:ENOMEM",
                           "refuse=create_cq:1:ENOTHING",
                           "refuse=poll_cq:1:ENOMEM",
                           "devices=",
                           "devices",
                           "rate=10",
                           "rate=-1g",
                           "rate=nang",
                           "latency=2",
                           "loss=100%",
                           "loss=x",
                           "mtu=1000",
                           "mtu=8192",
                           "domain=",
                           "domain=a/b",
                           "down=dev0",
                           "down=0@1s",
                           "up=dev9@1s",
                           "fail=dev0:qp-send:0:REM_OP_ERR",
                           "fail=dev0:jump:1:REM_OP_ERR",
                           "fail=dev0:write:1:OOPS",
                           "fail=dev0:write:1:REM_OP_ERR:gone",
                           "gids=",
                           "gids=ip3",
                           "seed=1x",
                           "memlock=1",
                           "host=64",
                           "speed=1g",
                           "=",
                           "devices=2 "}) {
    std::string error;
    EXPECT_FALSE(softnic::parse_settings(text, &error)) << text;
    EXPECT_EQ(error.rfind("SOFTNIC: ", 0), 0u) << text << " -> " << error;
  }
}

TEST(Settings, ABadValueLeavesNoDevice) {
  setenv("SOFTNIC", "devices=nine", 1);
  int count = -1;
  testing::internal::CaptureStderr();
  EXPECT_EQ(ibv_get_device_list(&count), nullptr);
  EXPECT_EQ(count, 0);
  EXPECT_NE(testing::internal::GetCapturedStderr().find("devices=nine: accepted is 1 to 8"), std::string::npos);
}

}  // namespace
}  // namespace softnic_test
