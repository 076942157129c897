// Do both ends choose addresses and rails that reach each other, from the tables that hosts have?
#include "transport/verbs/verbs_reach.hpp"

#include <gmock/gmock.h>

#include <fstream>
#include <map>
#include <random>
#include <set>
#include <sstream>
#include <tuple>

#include "gid_tables.hpp"

namespace twohop::verbs {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

/// Indices chosen at the two ends; {-1, -1}: none.
std::pair<int, int> chosen(const std::vector<GidCandidate>& a, const std::vector<GidCandidate>& b) {
  const GidPair p = choose_gids(a, b);
  if (p.reach == Reach::kNone) return {-1, -1};
  return {a[p.lower].entry.index, b[p.higher].entry.index};
}
std::pair<int, int> chosen(const std::vector<GidEntry>& a, const std::vector<GidEntry>& b, const GidWish& wish = {}) {
  return chosen(candidates(a, wish), candidates(b, wish));
}

const std::vector<GidEntry> kHere = table_of({"fe80::1", "10.1.0.5", "fd00::5"});
const std::vector<GidEntry> kThere = table_of({"fe80::2", "10.1.0.6", "fd00::6"});

TEST(ChooseGids, TakesRoceV2OfIpv4ByDefault) {
  EXPECT_EQ(chosen(kHere, kThere), std::pair(3, 3));
}

TEST(ChooseGids, FollowsVersionAndFamily) {
  EXPECT_EQ(chosen(kHere, kThere, {.roce_version = 1}), std::pair(2, 2));
  EXPECT_EQ(chosen(kHere, kThere, {.family = Family::kIpv6}), std::pair(5, 5));
  EXPECT_EQ(chosen(kHere, kThere, {.roce_version = 1, .family = Family::kIpv6}), std::pair(4, 4));
}

TEST(ChooseGids, TakesALinkLocalAddressOnlyWhenThereIsNoOther) {
  const auto local = table_of({"fe80::1"});
  EXPECT_EQ(chosen(local, kThere), std::pair(1, 1));
  EXPECT_EQ(chosen(table_of({"169.254.3.4", "fd00::5"}), table_of({"169.254.3.5", "fd00::6"})), std::pair(3, 3));
}

TEST(ChooseGids, LetsEachEndHaveItsOwnIndex) {
  EXPECT_EQ(chosen(table_of({"10.1.0.5"}), kThere), std::pair(1, 3));
  EXPECT_EQ(chosen(candidates(kHere, {.index = 3}), candidates(table_of({"10.1.0.9"}, 6))), std::pair(3, 7));
}

TEST(ChooseGids, PrefersTheSubnetOfThePeer) {
  const auto two = table_of({"fe80::1", "10.9.0.5", "10.1.0.5"});
  EXPECT_EQ(chosen(two, kThere), std::pair(5, 3));
  EXPECT_EQ(choose_gids(candidates(two), candidates(kThere)).reach, Reach::kSubnet);
}

TEST(ChooseGids, TakesTheFamilyInWhichTheSubnetIsSharedUnlessOneIsAskedFor) {
  const auto far = table_of({"fe80::2", "10.77.0.6", "fd00::6"});
  EXPECT_EQ(chosen(kHere, far), std::pair(5, 5));
  EXPECT_EQ(chosen(kHere, far, {.family = Family::kIpv4}), std::pair(3, 3));
  EXPECT_EQ(choose_gids(candidates(kHere, {.family = Family::kIpv4}), candidates(far, {.family = Family::kIpv4})).reach,
            Reach::kRouted);
}

TEST(ChooseGids, NeverPairsTwoFamiliesOrTwoVersions) {
  EXPECT_EQ(chosen(table_of({"10.1.0.5"}), table_of({"fd00::6"})), std::pair(-1, -1));
  EXPECT_EQ(chosen({entry(0, "10.1.0.5", kV1)}, {entry(0, "10.1.0.6", kV2)}), std::pair(-1, -1));
  EXPECT_EQ(chosen(table_of({"fd00::5"}), kThere), std::pair(1, 5));  // a dual-stack host and one without IPv4
}

TEST(ChooseGids, KnowsThePrefixOfAnInterface) {
  auto a = candidates(table_of({"10.1.2.5"})), b = candidates(table_of({"10.1.3.5"}));
  EXPECT_EQ(choose_gids(a, b).reach, Reach::kRouted);
  for (GidCandidate& c : a) c.entry.prefix_bits = 96 + 16;
  EXPECT_EQ(choose_gids(a, b).reach, Reach::kSubnet);
}

TEST(ChooseGids, IsTheSameAtBothEndsWhateverTheTables) {
  const unsigned seed = ::testing::UnitTest::GetInstance()->random_seed() + 7;
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  const char* pool[] = {"fe80::1", "10.1.0.1", "10.1.0.2", "10.2.0.1", "fd00::1", "fd00::2", "fd01::1", "169.254.1.1"};
  for (int i = 0; i < 500; ++i) {
    const auto table = [&] {
      std::vector<std::string> addresses;
      for (const char* a : pool)
        if (random() % 2) addresses.emplace_back(a);
      return addresses.empty() ? table_of({"10.3.0.1"}) : table_of(addresses);
    };
    const auto a = candidates(table()), b = candidates(table());
    const GidPair here = choose_gids(a, b), there = choose_gids(a, b);
    EXPECT_EQ(here.lower, there.lower);
    EXPECT_EQ(here.higher, there.higher);
    if (here.reach == Reach::kNone) continue;
    EXPECT_EQ(a[here.lower].entry.type, b[here.higher].entry.type);
    EXPECT_EQ(is_ipv4(a[here.lower].entry.gid), is_ipv4(b[here.higher].entry.gid));
  }
}

// ---- Tables as real hosts have them, described anew ----

TEST(RealTables, OfAPodStartAtIndexFour) {
  EXPECT_EQ(chosen(table_of({"fe80::aa", "192.0.2.12"}, 4), table_of({"fe80::bb", "192.0.2.13"}, 4)), std::pair(7, 7));
}

TEST(RealTables, WithoutAnyIpv4UseTheGlobalIpv6Address) {
  EXPECT_EQ(chosen(table_of({"fe80::aa", "2001:db8:0:58::1"}), table_of({"fe80::bb", "2001:db8:0:58::2"})),
            std::pair(3, 3));
}

/// The tables of a file in show_gids' format, by device.
std::map<std::string, std::vector<GidEntry>> read_show_gids(const std::string& name) {
  std::map<std::string, std::vector<GidEntry>> tables;
  std::ifstream file;
  for (const char* up : {"/../", "/../../"}) {
    file.open(TWOHOP_SOURCE_DIR + std::string(up) + "shared/topologies/ibinfo/" + name);
    if (file.is_open()) break;
    file.clear();
  }
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string device, port, index, gid, next;
    if (!(words >> device >> port >> index >> gid >> next) || port != "1") continue;
    const std::string version = next.find('.') == std::string::npos ? next : (words >> next, next);
    GidEntry e = entry(std::stoi(index), gid, version == "v2" ? kV2 : kV1);
    tables[device].push_back(e);
  }
  return tables;
}

TEST(RealTables, GiveTheRightAnswers) {
  const std::map<std::string, int> right = {{"gids_idx3_single.txt", 3},
                                            {"gids_pod_one_of_many.txt", 3},
                                            {"gids_three_subnets.txt", 3},
                                            {"gids_macvlan_pod_idx7.txt", 7},
                                            {"gids_ipv6_only_vrf.txt", 3}};
  for (const auto& [file, index] : right) {
    const auto tables = read_show_gids(file);
    if (tables.empty()) GTEST_SKIP() << "no ../shared/topologies/ibinfo/" << file << " beside the sources";
    for (const auto& [device, table] : tables) {
      auto peer = table;  // the same host with other addresses
      for (GidEntry& e : peer) e.gid.raw[15] ^= 1;
      EXPECT_EQ(chosen(table, peer), std::pair(index, index)) << file << " " << device;
    }
  }
}

// ---- Rails ----

struct Host {
  std::vector<std::vector<GidCandidate>> tables;
  std::vector<RailEnd> rails;
  explicit Host(const std::vector<std::vector<std::string>>& addresses) {
    for (const auto& a : addresses) tables.push_back(candidates(table_of(a)));
    for (const auto& t : tables) rails.push_back({true, t});
  }
};

std::vector<std::pair<size_t, size_t>> joined(const std::vector<RailEnd>& a, const std::vector<RailEnd>& b) {
  std::vector<std::pair<size_t, size_t>> pairs;
  for (const RailPair& p : join_rails(a, b)) pairs.emplace_back(p.lower, p.higher);
  return pairs;
}

TEST(JoinRails, PairsLikeWithLikeWhereSubnetsDiffer) {
  const Host a({{"192.0.2.11"}, {"198.51.100.11"}, {"203.0.113.11"}});
  const Host same({{"192.0.2.12"}, {"198.51.100.12"}, {"203.0.113.12"}});
  EXPECT_THAT(joined(a.rails, same.rails), ElementsAre(Pair(0, 0), Pair(1, 1), Pair(2, 2)));
  const Host turned({{"203.0.113.12"}, {"192.0.2.12"}, {"198.51.100.12"}});
  EXPECT_THAT(joined(a.rails, turned.rails), ElementsAre(Pair(0, 1), Pair(1, 2), Pair(2, 0)));
}

TEST(JoinRails, LeavesOutARailThatReachesNobody) {
  const Host a({{"192.0.2.11"}, {"198.51.100.11"}}), b({{"192.0.2.12"}, {"203.0.113.12"}});
  EXPECT_THAT(joined(a.rails, b.rails), ElementsAre(Pair(0, 0)));
}

TEST(JoinRails, PairsByPositionWhereNoSubnetIsShared) {
  const Host a({{"192.0.2.11"}, {"198.51.100.11"}}), b({{"10.0.1.12"}, {"10.0.2.12"}});
  EXPECT_THAT(joined(a.rails, b.rails), ElementsAre(Pair(0, 0), Pair(1, 1)));
  EXPECT_EQ(join_rails(a.rails, b.rails)[0].gids.reach, Reach::kRouted);
}

std::vector<RailEnd> numbered(Host& host, const std::vector<std::pair<int, bool>>& rails) {
  for (size_t i = 0; i < rails.size(); ++i) std::tie(host.rails[i].number, host.rails[i].own) = rails[i];
  return host.rails;
}

TEST(JoinRails, GoesByTheNumbersOfTheJobWhateverTheOrder) {
  Host a({{"10.1.0.1"}, {"10.1.0.2"}}), b({{"10.1.0.3"}, {"10.1.0.4"}});
  EXPECT_THAT(joined(numbered(a, {{0, true}, {1, true}}), numbered(b, {{1, true}, {0, true}})),
              ElementsAre(Pair(0, 1), Pair(1, 0)));
}

TEST(JoinRails, TakesRailsThatBothOwnElseThoseThatOneOwns) {
  Host a({{"10.1.0.1"}, {"10.1.0.2"}}), b({{"10.1.0.3"}, {"10.1.0.4"}});
  const auto first = numbered(a, {{0, true}, {1, false}});
  EXPECT_THAT(joined(first, numbered(b, {{0, true}, {1, false}})), ElementsAre(Pair(0, 0)));
  EXPECT_THAT(joined(first, numbered(b, {{1, true}, {0, false}})), ElementsAre(Pair(0, 1), Pair(1, 0)));
}

TEST(JoinRails, TrustsSubnetsMoreThanNumbers) {
  Host a({{"192.0.2.11"}, {"198.51.100.11"}}), b({{"198.51.100.12"}, {"192.0.2.12"}});
  EXPECT_THAT(joined(numbered(a, {{0, true}, {1, true}}), numbered(b, {{0, true}, {1, true}})),
              ElementsAre(Pair(0, 1), Pair(1, 0)));
  Host one({{"192.0.2.11"}}), other({{"192.0.2.12"}});
  EXPECT_THAT(joined(numbered(one, {{3, true}}), numbered(other, {{5, true}})), ElementsAre(Pair(0, 0)));
}

TEST(JoinRails, UsesARailOnceThoughAPeerRepeatsItsNumber) {
  Host a({{"10.1.0.1"}}), b({{"10.1.0.3"}, {"10.1.0.4"}});
  EXPECT_THAT(joined(numbered(a, {{0, true}}), numbered(b, {{0, true}, {0, true}})), ElementsAre(Pair(0, 0)));
}

TEST(JoinRails, NeverMixesInfiniBandAndRoce) {
  const auto ib = candidates({entry(0, "fe80::1", GidType::kIb)});
  const auto roce = candidates(table_of({"10.1.0.5"}));
  const std::vector<RailEnd> mixed = {{false, ib}, {true, roce}};
  EXPECT_THAT(joined(mixed, mixed), ElementsAre(Pair(0, 0), Pair(1, 1)));
  EXPECT_TRUE(join_rails(std::vector<RailEnd>{{false, ib}}, std::vector<RailEnd>{{true, roce}}).empty());
}

TEST(JoinRails, UsesEveryRailOfBothEndsInOneSubnet) {
  for (size_t n = 1; n <= 8; ++n)
    for (size_t m = 1; m <= 8; ++m) {
      std::vector<std::vector<std::string>> a, b;
      for (size_t i = 0; i < n; ++i) a.push_back({fmt::format("10.1.0.{}", 1 + i)});
      for (size_t i = 0; i < m; ++i) b.push_back({fmt::format("10.1.0.{}", 101 + i)});
      const Host here(a), there(b);
      std::set<size_t> used_here, used_there;
      const auto pairs = joined(here.rails, there.rails);
      for (const auto& [i, j] : pairs) used_here.insert(i), used_there.insert(j);
      EXPECT_EQ(pairs.size(), std::max(n, m));
      EXPECT_EQ(used_here.size(), n);
      EXPECT_EQ(used_there.size(), m);
      for (const auto& [i, j] : pairs) EXPECT_TRUE(n != m || i == j);
    }
}

}  // namespace
}  // namespace twohop::verbs
