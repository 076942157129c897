// Do windows and inboxes suffice for every algorithm, and are they no larger than the user allows?
#include "collectives/plan/memory_limits.hpp"

#include <gtest/gtest.h>

#include "shapes.hpp"

namespace twohop {
namespace {

constexpr uint64_t kPage = 4096;

TEST(MemoryLimits, SufficeForEveryAlgorithmWhateverTheUserSays) {
  const uint64_t seed = test_seed();
  RandomShape random(seed);
  for (int n = 0; n < test_shapes(300); ++n) {
    const Cluster cluster = random.cluster(40, 8);
    const MemorySettings settings{uint64_t{4096} << random.pick(0, 18), uint64_t{128} << random.pick(0, 14),
                                  random.pick(1, 64)};
    LayoutLimits limits = memory_limits(cluster, settings);
    EXPECT_EQ(limits.max_channels, settings.channels);
    for (const Algorithm& a : algorithms())
      for (Collective c : kCollectives) {
        if (!a.supports(cluster, c)) continue;
        const Layout layout(a.frame({&cluster, c, 0, {}}), cluster, 100'000, limits);  // stops where nothing fits
        EXPECT_GE(layout.chunk_bytes(), kChunkAlign);
        EXPECT_LE(layout.chunk_bytes(), std::max(settings.chunk_bytes, kChunkAlign)) << "TEST_SEED=" << seed;
      }
  }
}

TEST(MemoryLimits, StayWithinTheBufferWhereChunksAreNotTheSmallest) {
  const Cluster cluster = cluster_of({2, 2, 2, 2});
  for (uint64_t buffer = 256 << 10; buffer <= uint64_t{1} << 30; buffer *= 2) {
    const LayoutLimits limits = memory_limits(cluster, {buffer, 64 << 20, 1});
    EXPECT_LE(limits.window_bytes, buffer / 2);
    EXPECT_LE(limits.inbox_bytes, buffer / 8);
  }
}

/// The ring over the nodes has the largest chunks there are; what has more slots gets by with the same memory.
TEST(MemoryLimits, AreWhatTheRingNeeds) {
  for (int nodes : {2, 3, 4, 8, 64})
    for (int group : {1, 2, 4}) {
      const Cluster cluster = cluster_of(std::vector<int>(static_cast<size_t>(nodes), group));
      const LayoutLimits limits = memory_limits(cluster, {4 << 20, 128 << 10, 16});
      EXPECT_EQ(limits.chunk_bytes, uint64_t{64} << 10);
      EXPECT_EQ(limits.window_bytes, static_cast<uint64_t>(group) * 4 * limits.chunk_bytes);
      EXPECT_EQ(limits.inbox_bytes, 4 * limits.chunk_bytes);
      const auto chunk = [&](const char* name) {
        const Frame frame = find_algorithm(name)->frame({&cluster, Collective::kAllReduce, 0, {}});
        return Layout(frame, cluster, uint64_t{1} << 32, limits).chunk_bytes() * frame.chunks_per_put;
      };
      EXPECT_NEAR(static_cast<double>(chunk("two-hop")), 65536, 256);
      // A put of the log steps is as large as one of the ring's, but for what an odd number of nodes leaves over.
      EXPECT_GT(chunk("two-hop-log"), uint64_t{40} << 10) << nodes << " x " << group;
    }
}

TEST(MemoryLimits, AreWholePages) {
  const LayoutLimits limits = memory_limits(cluster_of({3, 1, 2}), {100'000, 1000, 3});
  EXPECT_EQ(limits.window_bytes % kPage, 0u);
  EXPECT_EQ(limits.inbox_bytes % kPage, 0u);
}

}  // namespace
}  // namespace twohop
