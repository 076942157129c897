// Which links share an inbox, and is that right for every sequence of calls?
#include "collectives/plan/inbox_sharing.hpp"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <tuple>

#include "collectives/plan/check_memory.hpp"
#include "shapes.hpp"

namespace twohop {
namespace {

using Ends = std::vector<LinkEnd>;

/// By peer and tag.
std::map<std::pair<int, int>, int> numbers(const std::vector<Ends>& by_algorithm) {
  std::map<std::pair<int, int>, int> found;
  for (const SharingEnd& s : share_inboxes(by_algorithm)) found[{s.end.peer, s.end.tag}] = s.inbox;
  return found;
}

/// As a communicator finds them: of all collectives, a broadcast from rank 0 for all broadcasts; of all algorithms or
/// where it may use but one of that.
std::vector<Ends> ends_of(const Cluster& cluster, int rank, std::vector<LinkEnd> Program::*direction,
                          const Algorithm* only = nullptr) {
  std::vector<Ends> lists;
  for (const Algorithm& a : algorithms()) {
    if (only && only != &a) continue;
    Ends& ends = lists.emplace_back();
    for (Collective c : kCollectives) {
      if (!a.supports(cluster, c)) continue;
      const Program p = a.program({&cluster, c, 0, {}}, rank);
      ends.insert(ends.end(), (p.*direction).begin(), (p.*direction).end());
    }
  }
  return lists;
}

TEST(InboxSharing, KeepsLinksOfAnAlgorithmApartAndLetsOthersShare) {
  const auto n = numbers({{{1, 7}, {2, 7}}, {{2, 7}, {3, 7}}, {{9, 7}}, {{9, 8}}});
  EXPECT_NE(n.at({7, 1}), n.at({7, 2}));
  EXPECT_NE(n.at({7, 2}), n.at({7, 3}));
  EXPECT_EQ(n.at({7, 1}), n.at({7, 3}));
  EXPECT_EQ(n.at({7, 9}), 0);
  EXPECT_EQ(n.at({8, 9}), 0) << "inboxes are counted for each peer";
  EXPECT_TRUE(share_inboxes({}).empty());
  EXPECT_TRUE(share_inboxes({{}, {}}).empty());
}

TEST(InboxSharing, DoesNotDependOnTheOrderOfAlgorithmsAndLinks) {
  const Ends a{{1, 7}, {2, 7}}, b{{2, 7}, {3, 7}, {4, 6}}, c{{4, 6}, {1, 6}};
  const auto expected = share_inboxes({a, b, c});
  EXPECT_EQ(share_inboxes({c, a, b}), expected);
  EXPECT_EQ(share_inboxes({Ends(c.rbegin(), c.rend()), Ends(b.rbegin(), b.rend()), a, a}), expected);
}

TEST(InboxSharing, ComesToTheSameInboxAtBothEndsOfEveryLink) {
  const uint64_t seed = test_seed();
  RandomShape random(seed);
  for (int n = 0; n < test_shapes(60); ++n) {
    const Cluster cluster = random.cluster(9, 5);
    std::map<std::tuple<int, int, int>, int> by_sender, by_receiver;  // by src, dst, tag
    for (int r = 0; r < cluster.nranks(); ++r) {
      for (const auto& [key, inbox] : numbers(ends_of(cluster, r, &Program::out)))
        by_sender[{r, key.first, key.second}] = inbox;
      for (const auto& [key, inbox] : numbers(ends_of(cluster, r, &Program::in)))
        by_receiver[{key.first, r, key.second}] = inbox;
    }
    EXPECT_EQ(by_sender, by_receiver) << "TEST_SEED=" << seed << ": " << describe(cluster, {});
  }
}

/// Broadcasts from other ranks than 0 included, which the sharing has not looked at.
TEST(InboxSharing, GivesEveryLinkOfAProgramAnInboxOfItsOwn) {
  const uint64_t seed = test_seed();
  RandomShape random(seed);
  for (int n = 0; n < test_shapes(40); ++n) {
    const Cluster cluster = random.cluster(9, 4);
    const int rank = random.pick(0, cluster.nranks() - 1);
    for (const auto direction : {&Program::out, &Program::in}) {
      const auto shared = numbers(ends_of(cluster, rank, direction));
      std::map<const Algorithm*, std::map<std::pair<int, int>, int>> alone;
      for (const Algorithm& a : algorithms()) alone[&a] = numbers(ends_of(cluster, rank, direction, &a));
      for (const Algorithm& a : algorithms())
        for (Collective c : kCollectives)
          for (int root = 0; a.supports(cluster, c) && root < (c == Collective::kBroadcast ? cluster.nranks() : 1);
               ++root) {
            const Program p = a.program({&cluster, c, root, {}}, rank);
            std::set<std::pair<int, int>> inboxes;
            for (const LinkEnd& e : p.*direction) {
              const auto it = shared.find({e.peer, e.tag});
              ASSERT_NE(it, shared.end()) << a.name << " root " << root << ": a link that is not connected";
              ASSERT_TRUE(alone.at(&a).contains({e.peer, e.tag})) << a.name << " root " << root << ", without others";
              EXPECT_TRUE(inboxes.insert({e.peer, it->second}).second)
                  << "TEST_SEED=" << seed << ": " << a.name << " " << collective_name(c) << " root " << root << ", "
                  << describe(cluster, {});
            }
          }
    }
  }
}

/// Calls of other algorithms that use the same inboxes, two apart.
TEST(InboxSharing, IsProvedOnlyWhileSendersWaitForTheLinksThatShare) {
  const auto calls = [](const char* first, const char* second) {
    std::vector<CheckedCall> list;
    for (const char* name : {first, first, second})
      list.push_back({find_algorithm(name), Collective::kAllReduce, 0, {1, 4, 4}, 1});
    return list;
  };
  CheckOptions careless;
  careless.order_sharing_links = false;
  for (const auto& [first, second] : {std::pair{"two-hop", "two-hop-tree"},
                                      {"two-hop-tree", "two-hop-log"},
                                      {"two-hop", "one-shot"},
                                      {"one-shot", "two-hop"},
                                      {"flat-naive", "two-hop"}}) {
    const Cluster cluster = cluster_of({2, 2});
    const CheckReport right = check(cluster, calls(first, second)),
                      wrong = check(cluster, calls(first, second), careless);
    EXPECT_FALSE(right.fault) << first << ", " << second << ": " << text(right);
    EXPECT_TRUE(wrong.fault && wrong.fault->kind == FaultKind::kCallOvertaken)
        << first << ", " << second << ": " << text(wrong);
  }
}

/// An inbox may be cut into slots of another size only when all of it is free, whichever slots are written next.
TEST(InboxSharing, FindsCellsThatAreNotCertainlyFree) {
  CheckMemory memory(3);
  const Clock nothing{0, 0}, write{1, 0}, both{1, 1};
  EXPECT_TRUE(memory.all_free(0, 3, nothing)) << "never used";
  Value value;
  value.chunk = {0, 0, 0, 0};
  EXPECT_FALSE(memory.write(1, CellSpace::kInbox, value, {{0, 1}, write}));
  EXPECT_FALSE(memory.all_free(0, 3, nothing));
  EXPECT_TRUE(memory.all_free(0, 1, nothing));
  EXPECT_TRUE(memory.all_free(0, 3, write));
  EXPECT_FALSE(memory.read(1, value.chunk, {{1, 1}, both}));
  EXPECT_FALSE(memory.all_free(0, 3, write)) << "somebody may still read it";
  EXPECT_TRUE(memory.all_free(0, 3, both));
}

}  // namespace
}  // namespace twohop
