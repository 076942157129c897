// Which entries of a port's GID table may be used, and what is said when there is none?
#include "transport/verbs/verbs_gid.hpp"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "gid_tables.hpp"

namespace twohop::verbs {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::vector<GidEntry> kUsual = table_of({"fe80::1", "10.1.0.5", "fd00::5"});

std::vector<int> allowed(const std::vector<GidEntry>& table, const GidWish& wish) {
  std::vector<int> indices;
  for (const GidCandidate& c : candidates(table, wish)) indices.push_back(c.entry.index);
  return indices;
}

TEST(GidCandidates, AreAllThatTheWishAllows) {
  EXPECT_THAT(allowed(kUsual, {}), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(allowed(kUsual, {.range = "10.1.0.0/16"}), ElementsAre(2, 3));
  EXPECT_THAT(allowed(kUsual, {.range = "fd00::/8"}), ElementsAre(4, 5));
  EXPECT_THAT(allowed(kUsual, {.range = "10.1.0.5"}), ElementsAre(2, 3));
  EXPECT_THAT(allowed(kUsual, {.index = 0}), ElementsAre(0));
}

TEST(GidCandidates, SayWhatThereIsWhenTheRangeHasNone) {
  auto e = gid_candidates(kUsual, {.range = "192.168.0.0/16"}, "mlx5_0:1");
  ASSERT_FALSE(e);
  EXPECT_THAT(
      e.error().message,
      HasSubstr("TWOHOP_IB_ADDR_RANGE=192.168.0.0/16: mlx5_0:1 has no GID inside; it has 0: fe80::1 (RoCE v1), "));
}

TEST(GidCandidates, RefuseRangesThatAreNone) {
  for (const char* range : {"10.2.0.0/33", "10.2/16", "10.2.0.0/", "10.2.0.0/x", "fd00::/129", "/8", "10.2.0.0/-1"}) {
    auto e = gid_candidates(kUsual, {.range = range}, "mlx5_0:1");
    ASSERT_FALSE(e) << range;
    EXPECT_THAT(e.error().message, HasSubstr("accepted is <address>/<bits>")) << range;
  }
}

TEST(GidCandidates, NameAnIndexThatIsEmptyAndListTheTable) {
  auto e = gid_candidates({kUsual[1], kUsual[3]}, {.index = 7}, "mlx5_0:1");
  ASSERT_FALSE(e);
  EXPECT_EQ(e.error().message,
            "TWOHOP_IB_GID_INDEX=7: GID index 7 of mlx5_0:1 is empty (has its network interface an address?); it has "
            "1: fe80::1 (RoCE v2), 3: 10.1.0.5 (RoCE v2)");
}

TEST(GidCandidates, OfAnEmptyTableAreAnError) {
  auto e = gid_candidates({}, {}, "mlx5_0:1");
  ASSERT_FALSE(e);
  EXPECT_THAT(e.error().message, HasSubstr("mlx5_0:1 has no GID"));
}

TEST(GidTable, NamesTheInterfaceOfAnEntry) {
  namespace fs = std::filesystem;
  const fs::path device = fs::temp_directory_path() / fmt::format("twohop-gid-{}", ::getpid());
  fs::create_directories(device / "ports/1/gid_attrs/ndevs");
  std::ofstream(device / "ports/1/gid_attrs/ndevs/3") << "eth2\n";
  EXPECT_EQ(interface_of_gid(device.string(), 1, 3), "eth2");
  EXPECT_EQ(interface_of_gid(device.string(), 1, 4), "");
  GidEntry e = entry(3, "10.1.0.5", kV2);
  e.interface = "eth2";
  EXPECT_EQ(describe(std::vector{e}), "3: 10.1.0.5 (RoCE v2, eth2)");
  fs::remove_all(device);
}

}  // namespace
}  // namespace twohop::verbs
