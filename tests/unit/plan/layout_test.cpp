// Chunks tile the user's buffers: every byte belongs to one chunk, whatever the size, shape and limits.
#include "collectives/plan/layout.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "shapes.hpp"

namespace twohop {
namespace {

struct Case {
  Cluster cluster;
  CheckedCall call;
  uint64_t bytes = 0;
  LayoutLimits limits;

  Frame frame() const { return call.algorithm->frame({&cluster, call.collective, call.root, call.depths}); }
  std::string text() const {
    return describe(cluster, {call}) + " bytes " + std::to_string(bytes) + " window " +
           std::to_string(limits.window_bytes) + " inbox " + std::to_string(limits.inbox_bytes) + " chunk " +
           std::to_string(limits.chunk_bytes) + " channels " + std::to_string(limits.max_channels) + " per channel " +
           std::to_string(limits.bytes_per_channel);
  }
  bool is(Collective c) const { return call.collective == c; }
  /// Bytes of a rank's buffer: one block, or one for every rank.
  uint64_t buffer_bytes(Space space) const {
    const bool all = (is(Collective::kReduceScatter) && space == Space::kInput) ||
                     (is(Collective::kAllGather) && space == Space::kOutput);
    return all ? bytes * cluster.nranks() : bytes;
  }
  /// Is the chunk part of the rank's buffer?
  bool has(Space space, int rank, int shard, int chunk) const {
    const bool own = (is(Collective::kReduceScatter) && space == Space::kOutput) ||
                     (is(Collective::kAllGather) && space == Space::kInput);
    return !own || (chunk / call.depths.chunks_per_put == cluster.node_of[rank] && shard == cluster.local_of[rank]);
  }
};

/// The extents of all chunks of a rank's buffer, in the order of their offsets.
std::vector<Extent> extents(const Case& c, const Layout& layout, Space space, int rank) {
  std::vector<Extent> all;
  const Frame f = c.frame();
  for (int channel = 0; channel < layout.channels(); ++channel)
    for (int64_t round = 0; round < layout.rounds(); ++round)
      for (int shard = 0; shard < f.shards; ++shard)
        for (int chunk = 0; chunk < f.chunks; ++chunk)
          if (c.has(space, rank, shard, chunk)) all.push_back(layout.extent(space, channel, round, shard, chunk));
  std::erase_if(all, [](const Extent& e) { return e.bytes == 0; });
  std::sort(all.begin(), all.end(), [](const Extent& a, const Extent& b) { return a.offset < b.offset; });
  return all;
}

/// Offsets are aligned within a block, and only a block's last chunk has an odd size.
void expect_aligned(const Case& c, const Extent& e) {
  const uint64_t in_block = e.offset % c.bytes;
  EXPECT_EQ(in_block % kChunkAlign, 0u);
  EXPECT_TRUE(in_block + e.bytes == c.bytes || e.bytes % kChunkAlign == 0) << c.text();
}

void expect_tiled(const Case& c, const Layout& layout, Space space, int rank) {
  uint64_t next = 0;
  for (const Extent& e : extents(c, layout, space, rank)) {
    ASSERT_EQ(e.offset, next) << c.text();
    expect_aligned(c, e);
    EXPECT_LE(e.bytes, layout.chunk_bytes());
    next += e.bytes;
  }
  EXPECT_EQ(next, c.buffer_bytes(space)) << c.text();
}

void expect_within_limits(const Case& c, const Layout& layout) {
  const Frame f = c.frame();
  const uint64_t chunk = layout.chunk_bytes();
  EXPECT_EQ(chunk % kChunkAlign, 0u) << c.text();
  EXPECT_LE(chunk, c.limits.chunk_bytes) << c.text();
  EXPECT_LE(chunk * f.areas * f.slots, c.limits.window_bytes) << c.text();
  EXPECT_LE(chunk * f.put_slots * f.chunks_per_put, c.limits.inbox_bytes) << c.text();
  EXPECT_GE(layout.channels(), 1) << c.text();
  EXPECT_LE(layout.channels(), c.limits.max_channels) << c.text();
  EXPECT_GE(layout.rounds(), 1) << c.text();
}

Case random_case(RandomShape& random, uint64_t bytes) {
  Case c;
  c.cluster = random.cluster(5, 4);
  c.call = random.call(c.cluster, random.depths(), 1);
  c.bytes = bytes;
  const Frame f = c.frame();
  const uint64_t least = kChunkAlign;
  c.limits.window_bytes = least * f.areas * f.slots * random.pick(1, 9) + random.pick(0, 200);
  c.limits.inbox_bytes = least * f.put_slots * f.chunks_per_put * random.pick(1, 9) + random.pick(0, 200);
  c.limits.chunk_bytes = random.pick(128, 2000);
  c.limits.max_channels = random.pick(1, 4);
  c.limits.bytes_per_channel = random.pick(0, 5000);
  return c;
}

uint64_t small_size(RandomShape& random) {
  constexpr uint64_t kEdges[] = {0, 1, 2, 3, 7, 127, 128, 129, 251, 257, 1009, 4096, 65521};
  const int i = random.pick(0, 25);
  return i < 13 ? kEdges[i] : static_cast<uint64_t>(random.pick(0, 30000));
}

TEST(Layout, TilesInputAndOutputOfEveryRankExactlyOnce) {
  const uint64_t seed = test_seed();
  RandomShape random(seed);
  for (int n = 0; n < test_shapes(1500) && !testing::Test::HasFailure(); ++n) {
    SCOPED_TRACE("TEST_SEED=" + std::to_string(seed) + " case " + std::to_string(n));
    const Case c = random_case(random, small_size(random));
    const Layout layout(c.frame(), c.cluster, c.bytes, c.limits);
    expect_within_limits(c, layout);
    const int rank = random.pick(0, c.cluster.nranks() - 1);
    for (Space space : {Space::kInput, Space::kOutput}) expect_tiled(c, layout, space, rank);
  }
}

TEST(Layout, GivesChunksOfSmallerNodesWithoutARankNoBytes) {
  const Cluster cluster = cluster_of({1, 3});
  for (Collective collective : {Collective::kReduceScatter, Collective::kAllGather}) {
    const Frame f = find_algorithm("two-hop")->frame({&cluster, collective, 0, {1, 2, 2}});
    const Layout layout(f, cluster, 5000, {});
    for (int shard : {1, 2})
      for (Space space : {Space::kInput, Space::kOutput}) EXPECT_EQ(layout.extent(space, 0, 0, shard, 0).bytes, 0u);
  }
}

TEST(Layout, UsesFurtherChannelsOnlyForMoreData) {
  const Cluster cluster = cluster_of({2, 2});
  const Frame f = find_algorithm("two-hop")->frame({&cluster, Collective::kAllReduce, 0, {}});
  LayoutLimits limits;
  limits.max_channels = 4;
  const auto channels = [&](uint64_t bytes) { return Layout(f, cluster, bytes, limits).channels(); };
  EXPECT_EQ(channels(0), 1);
  EXPECT_EQ(channels(limits.bytes_per_channel), 1);
  EXPECT_EQ(channels(limits.bytes_per_channel + 1), 2);
  EXPECT_EQ(channels(100 * limits.bytes_per_channel), 4);
}

/// Too many chunks to list: neighbours must touch, at both ends and at random places.
TEST(Layout, TilesHugeBuffersWithoutOverflow) {
  const uint64_t seed = test_seed();
  RandomShape random(seed);
  for (int n = 0; n < 300; ++n) {
    SCOPED_TRACE("TEST_SEED=" + std::to_string(seed) + " case " + std::to_string(n));
    const Case c = random_case(random, (uint64_t{1} << 40) + random.pick(-1000, 1000));
    if (c.is(Collective::kReduceScatter) || c.is(Collective::kAllGather)) continue;
    const Frame f = c.frame();
    const Layout layout(f, c.cluster, c.bytes, c.limits);
    expect_within_limits(c, layout);
    const int64_t per_round = int64_t{f.shards} * f.chunks, total = layout.channels() * layout.rounds() * per_round;
    const auto at = [&](int64_t i) {
      const int64_t round = i / per_round, in_round = i % per_round;
      return layout.extent(Space::kInput, static_cast<int>(round / layout.rounds()), round % layout.rounds(),
                           static_cast<int>(in_round / f.chunks), static_cast<int>(in_round % f.chunks));
    };
    EXPECT_EQ(at(0).offset, 0u);
    EXPECT_EQ(at(total - 1).offset + at(total - 1).bytes, c.bytes) << c.text();
    for (int64_t i = 0; i < total - 1; i += 1 + total / 1000)
      ASSERT_EQ(at(i).offset + at(i).bytes, at(i + 1).offset) << c.text() << " chunk " << i;
  }
}

TEST(Layout, PlacesHugeBlocksOfAllRanks) {
  const Cluster cluster = cluster_of({3, 5});
  const uint64_t block = (uint64_t{1} << 40) - 3;
  const Frame f = find_algorithm("two-hop")->frame({&cluster, Collective::kAllGather, 0, {}});
  const Layout layout(f, cluster, block, {});
  const int last = f.chunks_per_put - 1;
  for (int rank = 0; rank < cluster.nranks(); ++rank) {
    const int shard = cluster.local_of[rank], chunk = cluster.node_of[rank] * f.chunks_per_put;
    EXPECT_EQ(layout.extent(Space::kOutput, 0, 0, shard, chunk).offset, rank * block);
    const Extent end = layout.extent(Space::kOutput, 0, layout.rounds() - 1, shard, chunk + last);
    EXPECT_EQ(end.offset + end.bytes, (rank + 1) * block);
    EXPECT_EQ(layout.extent(Space::kInput, 0, 0, shard, chunk).offset, 0u);
  }
}

}  // namespace
}  // namespace twohop
