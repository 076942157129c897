// Is the right GID chosen from the tables that hosts have?
#include "transport/verbs/verbs_gid.hpp"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

namespace twohop::verbs {
namespace {

using ::testing::HasSubstr;

GidEntry entry(int index, const std::string& address, GidType type) {
  GidEntry e;
  e.index = index;
  e.type = type;
  if (address.find(':') == std::string::npos) {
    e.gid.raw[10] = e.gid.raw[11] = 0xff;
    EXPECT_EQ(::inet_pton(AF_INET, address.c_str(), e.gid.raw + 12), 1) << address;
  } else {
    EXPECT_EQ(::inet_pton(AF_INET6, address.c_str(), e.gid.raw), 1) << address;
  }
  return e;
}

constexpr GidType kV1 = GidType::kRoceV1, kV2 = GidType::kRoceV2;

/// As a port with one IPv4 and one global IPv6 address has it.
const std::vector<GidEntry> kUsual = {entry(0, "fe80::1", kV1),  entry(1, "fe80::1", kV2), entry(2, "10.1.0.5", kV1),
                                      entry(3, "10.1.0.5", kV2), entry(4, "fd00::5", kV1), entry(5, "fd00::5", kV2)};

int chosen(const std::vector<GidEntry>& table, const GidWish& wish) {
  auto e = choose_gid(table, wish, "mlx5_0:1");
  EXPECT_TRUE(e) << e.error().message;
  return e ? e->index : -1;
}

TEST(ChooseGid, TakesRoceV2OfIpv4ByDefault) {
  EXPECT_EQ(chosen(kUsual, {}), 3);
}

TEST(ChooseGid, FollowsVersionAndFamily) {
  EXPECT_EQ(chosen(kUsual, {.roce_version = 1}), 2);
  EXPECT_EQ(chosen(kUsual, {.family = AF_INET6}), 5);
  EXPECT_EQ(chosen(kUsual, {.roce_version = 1, .family = AF_INET6}), 4);
}

TEST(ChooseGid, TakesALinkLocalAddressOnlyWhenThereIsNoOther) {
  EXPECT_EQ(chosen({kUsual[0], kUsual[1]}, {}), 1);
  EXPECT_EQ(chosen({kUsual[0], kUsual[1], kUsual[5]}, {}), 5);
  EXPECT_EQ(chosen({entry(0, "169.254.3.4", kV2), entry(1, "fd00::5", kV2)}, {}), 1);
}

TEST(ChooseGid, TakesAnAddressInsideTheRange) {
  std::vector<GidEntry> table = kUsual;
  table.push_back(entry(6, "10.2.0.5", kV2));
  EXPECT_EQ(chosen(table, {.range = "10.2.0.0/16"}), 6);
  EXPECT_EQ(chosen(table, {.range = "fd00::/8"}), 5);
  EXPECT_EQ(chosen(table, {.range = "10.2.0.5"}), 6);
}

TEST(ChooseGid, SaysWhatThereIsWhenTheRangeHasNone) {
  auto e = choose_gid(kUsual, {.range = "192.168.0.0/16"}, "mlx5_0:1");
  ASSERT_FALSE(e);
  EXPECT_THAT(
      e.error().message,
      HasSubstr("TWOHOP_IB_ADDR_RANGE=192.168.0.0/16: mlx5_0:1 has no GID inside; it has 0: fe80::1 (RoCE v1), "));
}

TEST(ChooseGid, RefusesRangesThatAreNone) {
  for (const char* range : {"10.2.0.0/33", "10.2/16", "10.2.0.0/", "10.2.0.0/x", "fd00::/129", "/8", "10.2.0.0/-1"}) {
    auto e = choose_gid(kUsual, {.range = range}, "mlx5_0:1");
    ASSERT_FALSE(e) << range;
    EXPECT_THAT(e.error().message, HasSubstr("accepted is <address>/<bits>")) << range;
  }
}

TEST(ChooseGid, TakesTheIndexAskedForOrListsTheTable) {
  EXPECT_EQ(chosen(kUsual, {.index = 0}), 0);
  auto e = choose_gid({kUsual[1], kUsual[3]}, {.index = 7}, "mlx5_0:1");
  ASSERT_FALSE(e);
  EXPECT_EQ(e.error().message,
            "TWOHOP_IB_GID_INDEX=7: mlx5_0:1 has no such GID; it has 1: fe80::1 (RoCE v2), 3: 10.1.0.5 (RoCE v2)");
}

TEST(ChooseGid, SaysThatThereIsNone) {
  auto e = choose_gid({}, {}, "mlx5_0:1");
  ASSERT_FALSE(e);
  EXPECT_THAT(e.error().message, HasSubstr("mlx5_0:1 has no GID"));
}

}  // namespace
}  // namespace twohop::verbs
