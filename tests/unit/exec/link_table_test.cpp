// How many links and inboxes has a rank, and how much memory do they take?
#include "collectives/exec/link_table.hpp"

#include <gtest/gtest.h>

#include "base/options.hpp"
#include "collectives/exec/tuning.hpp"
#include "collectives/plan/memory_limits.hpp"

namespace twohop {
namespace {

constexpr uint64_t kMiB = 1 << 20;

Cluster even_cluster(int nodes, int group) {
  std::vector<int> key;
  for (int node = 0; node < nodes; ++node) key.insert(key.end(), static_cast<size_t>(group), node);
  return make_cluster(key);
}

std::vector<const Algorithm*> every_algorithm() {
  std::vector<const Algorithm*> all;
  for (const Algorithm& a : algorithms()) all.push_back(&a);
  return all;
}

TEST(LinkTable, HasTheLinksOfAllChannelsInOrderAndThoseOfAnInboxTogether) {
  const Cluster cluster = even_cluster(4, 2);
  const LinkTable table = links_of(every_algorithm(), cluster, 2, 3);
  ASSERT_EQ(table.out.size(), table.out_inbox.size());
  ASSERT_EQ(table.in.size(), table.in_inbox.size());
  EXPECT_EQ(table.in.size() % 3, 0u);
  EXPECT_EQ(table.in_inboxes() % 3, 0u);
  EXPECT_LT(table.in_inboxes(), table.in.size()) << "nothing is shared";
  for (size_t i = 0; i < table.out.size(); ++i) {
    EXPECT_EQ(table.out[i].channel, i / (table.out.size() / 3));
    EXPECT_EQ(table.find_out(table.out[i]), i) << "twice the same link";
    const auto [first, count] = table.sharing_with(i);
    ASSERT_TRUE(first <= i && i < first + count);
    for (size_t other = first; other < first + count; ++other) {
      EXPECT_EQ(table.out[other].dst, table.out[i].dst);
      EXPECT_EQ(table.out[other].channel, table.out[i].channel);
    }
  }
}

TEST(LinkTable, IsEmptyOnOneNode) {
  const LinkTable table = links_of(every_algorithm(), even_cluster(1, 4), 1, 2);
  EXPECT_EQ(table.in_inboxes(), 0u);
  EXPECT_EQ(table.out_inboxes(), 0u);
}

/// Bytes of windows and inboxes, of the rank that has most.
uint64_t most_bytes(const Cluster& cluster, int channels, const std::string& model) {
  Options options;
  options.model_file = model;
  const Selection all;
  TuningPlace place;
  place.cluster = &cluster;
  place.limits = memory_limits(cluster, {4 << 20, 128 << 10, channels});
  place.net = "softnic";
  place.cores = 2;
  const auto text = make_tuning(all, options, place);
  const auto tuning = Tuning::create(all, text.value(), cluster, place.limits, 64);
  const auto reachable = tuning.value().reachable(cluster);
  uint64_t most = 0;
  for (int r = 0; r < cluster.nranks(); ++r)
    most = std::max<uint64_t>(
        most, window_map(cluster, place.limits).total(links_of(reachable, cluster, r, channels).in_inboxes()));
  return most;
}

/// The table's links took 208 MiB when each had an inbox of its own, as wide as the widest algorithm's (2026-11).
TEST(MemoryOfARank, IsLittleMoreUnderTheTableThanUnderTheFixedRule) {
  const Cluster cluster = even_cluster(4, 2);
  const uint64_t rule = most_bytes(cluster, 16, "none"), table = most_bytes(cluster, 16, "built-in");
  EXPECT_LE(rule, 49 * kMiB);
  EXPECT_LE(table, 65 * kMiB);
  EXPECT_GT(rule, 16 * kMiB);
}

TEST(MemoryOfARank, DoesNotGrowWithTheAlgorithmsThatMayBeUsedMoreThanWithTheirPeers) {
  for (int nodes : {2, 3, 8}) {
    const Cluster cluster = even_cluster(nodes, 2);
    const LayoutLimits limits = memory_limits(cluster, {4 << 20, 128 << 10, 16});
    for (int r = 0; r < cluster.nranks(); ++r) {
      const LinkTable table = links_of(every_algorithm(), cluster, r, 1);
      std::vector<int> peers;
      for (const LinkId& link : table.in)
        if (std::find(peers.begin(), peers.end(), link.src) == peers.end()) peers.push_back(link.src);
      EXPECT_LE(table.in_inboxes(), 2 * peers.size()) << "no algorithm has more than two links from a rank to another";
    }
    EXPECT_EQ(window_map(cluster, limits).inbox_bytes, limits.inbox_bytes);
  }
}

}  // namespace
}  // namespace twohop
