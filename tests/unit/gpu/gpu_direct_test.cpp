// Between nodes: does the network reach GPU memory itself, and what happens where it does not? Run once more with
// TWOHOP_NET=softnic, whose device registers the fake GPUs' memory, and with TWOHOP_REQUIRE_GDR=1.
#include "base/options.hpp"
#include "gpu_ranks.hpp"
#include "unit/transport/captured_log.hpp"

namespace twohop::gpu_test {
namespace {

twohopCounters_t counters_of(twohopComm_t comm) {
  twohopCounters_t c{};
  c.size = sizeof c;
  EXPECT_EQ(twohopCommGetCounters(comm, &c), twohopSuccess);
  return c;
}

/// All ranks fail to join, with an error that has all of `texts`.
void expect_no_join(int nranks, int ranks_per_node, const std::vector<std::string>& texts) {
  twohopUniqueId id{};
  ASSERT_EQ(twohopGetUniqueId(&id), twohopSuccess);
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < nranks; ++rank)
    ranks.emplace_back([&, rank] {
      FakeGpus::set_device(rank);
      twohopConfig_t config = TWOHOP_CONFIG_INITIALIZER;
      config.ranks_per_node = ranks_per_node;
      twohopComm_t comm = nullptr;
      EXPECT_EQ(twohopCommInitRankConfig(&comm, nranks, id, rank, &config), twohopSystemError);
      for (const std::string& text : texts) EXPECT_THAT(last_error(), testing::HasSubstr(text));
    });
  for (auto& t : ranks) t.join();
}

TEST(GpuDirect, IsRequiredInVainWhereTheCpuMovesTheData) {
  if (options()->require_gdr == 0 || options()->net != "tcp")
    GTEST_SKIP() << "run with TWOHOP_REQUIRE_GDR=1 TWOHOP_NET=tcp";
  FakeGpus gpus;
  expect_no_join(2, 1, {"TWOHOP_REQUIRE_GDR=1, and rank 0 has no GPUDirect RDMA", "moves data by the CPU"});
}

TEST(GpuDirect, IsRequiredInVainWhereTheGpusOfANodeDoNotReachEachOther) {
  if (options()->require_gdr == 0 || options()->net == "tcp")
    GTEST_SKIP() << "run with TWOHOP_REQUIRE_GDR=1 TWOHOP_NET=softnic";
  for (const bool known : {true, false}) {
    FakeGpus gpus({.no_peer_access = !known, .peers_are_known_to_be = !known});
    expect_no_join(4, 2, {"TWOHOP_REQUIRE_GDR=1, and rank", "exchange data through host memory"});
  }
}

/// It is about the network: what else goes wrong costs calls on GPUs, and not the communicator.
TEST(GpuDirect, IsNotWhatIsMissingWhereLanesDoNotFit) {
  FakeGpus gpus({.resident_lanes = 2});
  run_ranks({.one_gpu = true}, [&](int, twohopComm_t comm) {
    std::vector<float> host(10, 1);
    EXPECT_EQ(twohopAllReduce(host.data(), host.data(), 10, twohopFloat32, twohopSum, comm, nullptr), twohopSuccess)
        << last_error();
  });
}

TEST(GpuDirect, IsAnnouncedWithTheReasonAgainstTheBetterWay) {
  if (options()->net != "softnic") GTEST_SKIP() << "run with TWOHOP_NET=softnic";
  FakeGpus gpus;  // whose dma-bufs no device takes
  const test::CapturedLog log;
  run_ranks({.nranks = 2, .ranks_per_node = 1}, [](int, twohopComm_t) {});
  EXPECT_THAT(log.text(), testing::HasSubstr("rank 1: GPUDirect RDMA by nvidia-peermem (dma-buf: softnic0 does not"));
}

/// So that what is refused for its size is staged through host memory, or an error of the join, like any other refusal.
TEST(GpuDirect, IsTriedWithAsMuchMemoryAsCallsNeed) {
  if (options()->net != "softnic") GTEST_SKIP() << "run with TWOHOP_NET=softnic";
  FakeGpus gpus;
  run_ranks({.nranks = 4, .ranks_per_node = 2, .nchannels = 3}, [](int, twohopComm_t) {});
  for (int device = 0; device < 4; ++device) {
    const std::vector<size_t> sizes = gpus.dma_bufs(device);
    ASSERT_EQ(sizes.size(), 2U) << "a try, and the windows";
    EXPECT_EQ(sizes[0], sizes[1]);
  }
}

/// Inboxes are read by all GPUs of a node: that the one sees what the network wrote to it is not enough.
TEST(GpuDirect, FlushesArrivalsForAllGpusThatReadThem) {
  if (options()->net != "softnic") GTEST_SKIP() << "run with TWOHOP_NET=softnic";
  for (const int per_node : {1, 2}) {
    FakeGpus gpus;
    run_ranks({.nranks = 4, .ranks_per_node = per_node}, [&](int rank, twohopComm_t comm) {
      FakeStream stream;
      Floats b(gpus, 10000, rank);
      b.fill(rank);
      ASSERT_EQ(twohopAllReduce(b.get(), b.get(), b.count(), twohopFloat32, twohopSum, comm, as_stream(stream)),
                twohopSuccess);
      stream.synchronize();
      b.expect_sum(4);
    });
    const bool others_read = per_node > 1;
    EXPECT_GT(gpus.flushes(others_read), 0);
    EXPECT_EQ(gpus.flushes(!others_read), 0);
  }
}

TEST(GpuDirect, IsNotUsedWhereArrivalsCannotBeFlushedForAllGpusOfANode) {
  if (options()->require_gdr == 0 || options()->net == "tcp")
    GTEST_SKIP() << "run with TWOHOP_REQUIRE_GDR=1 TWOHOP_NET=softnic";
  FakeGpus gpus({.device_without_flush = 1});
  expect_no_join(4, 2, {"TWOHOP_REQUIRE_GDR=1, and rank 1 has no GPUDirect RDMA", "cannot be flushed"});
  run_ranks({.nranks = 2, .ranks_per_node = 1}, [](int, twohopComm_t) {});  // nobody else reads
}

TEST(GpuDirect, IsCountedLikeOtherTraffic) {
  if (options()->require_gdr != 0 && options()->net == "tcp") GTEST_SKIP() << "no communicator comes up";
  FakeGpus gpus;
  run_ranks({.nranks = 2, .ranks_per_node = 1}, [&](int rank, twohopComm_t comm) {
    FakeStream stream;
    Floats b(gpus, 10000, rank);
    b.fill(rank);
    const twohopCounters_t before = counters_of(comm);
    ASSERT_EQ(twohopAllReduce(b.get(), b.get(), b.count(), twohopFloat32, twohopSum, comm, as_stream(stream)),
              twohopSuccess);
    stream.synchronize();
    b.expect_sum(2);
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (counters_of(comm).net_bytes_sent == before.net_bytes_sent && std::chrono::steady_clock::now() < until)
      std::this_thread::yield();
    const twohopCounters_t after = counters_of(comm);
    EXPECT_EQ(after.calls, before.calls + 1);
    EXPECT_GE(after.net_bytes_sent - before.net_bytes_sent, 20000U);
    EXPECT_GT(after.puts, before.puts);
  });
}

}  // namespace
}  // namespace twohop::gpu_test
