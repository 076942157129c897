// Whole calls on GPU memory through the C API: shapes, algorithms, streams, groups, graphs.
#include <tuple>

#include "base/options.hpp"
#include "gpu_ranks.hpp"

namespace twohop::gpu_test {
namespace {

struct Shape {
  const char* name;
  Job job;
};

class GpuCallsOn : public testing::TestWithParam<Shape> {};

TEST_P(GpuCallsOn, SumAnyCount) {
  FakeGpus gpus;
  const Job job = GetParam().job;
  run_ranks(job, [&](int rank, twohopComm_t comm) {
    FakeStream stream;
    for (const size_t count : {1UL, 7UL, 1000UL, 30011UL}) {
      Floats send(gpus, count, rank), recv(gpus, count, rank);
      send.fill(rank);
      ASSERT_EQ(twohopAllReduce(send.get(), recv.get(), count, twohopFloat32, twohopSum, comm, as_stream(stream)),
                twohopSuccess)
          << last_error(comm);
      stream.synchronize();
      recv.expect_sum(job.nranks);
    }
  });
}

TEST_P(GpuCallsOn, FollowEachOtherWithoutTheHostWaiting) {
  FakeGpus gpus;
  const Job job = GetParam().job;
  run_ranks(job, [&](int rank, twohopComm_t comm) {
    FakeStream one, two;
    constexpr size_t kCalls = 6;
    std::vector<std::unique_ptr<Floats>> buffers;
    for (size_t i = 0; i < kCalls; ++i) {
      Floats& b = *buffers.emplace_back(std::make_unique<Floats>(gpus, 300 * i + 1, rank));
      b.fill(rank);
      FakeStream& stream = i % 3 == 0 ? two : one;
      ASSERT_EQ(twohopAllReduce(b.get(), b.get(), b.count(), twohopFloat32, twohopSum, comm, as_stream(stream)),
                twohopSuccess)
          << last_error(comm);
    }
    one.synchronize();
    two.synchronize();
    for (auto& b : buffers) b->expect_sum(job.nranks);
  });
}

INSTANTIATE_TEST_SUITE_P(Shapes, GpuCallsOn,
                         testing::Values(Shape{"alone", {.nranks = 1}}, Shape{"two_on_a_node", {.nranks = 2}},
                                         Shape{"two_nodes", {.nranks = 2, .ranks_per_node = 1}},
                                         Shape{"two_by_two", {.nranks = 4, .ranks_per_node = 2, .algo = "two-hop"}},
                                         Shape{"uneven",
                                               {.nranks = 3, .ranks_per_node = 2, .algo = "two-hop", .nchannels = 2}},
                                         Shape{"flat", {.nranks = 3, .ranks_per_node = 2, .algo = "flat"}}),
                         [](const auto& shape) { return shape.param.name; });

TEST(GpuCalls, RunOnTheDefaultStreamWhereNoneIsGiven) {
  FakeGpus gpus;
  for (const MemoryKind kind : {MemoryKind::kDevice, MemoryKind::kManaged, MemoryKind::kPinned})
    run_ranks({}, [&](int rank, twohopComm_t comm) {
      Floats b(gpus, 500, rank, kind);
      b.fill(rank);
      std::atomic<bool> open{false};
      gpus.default_stream(rank).enqueue([&] {
        while (!open) std::this_thread::yield();
      });
      // Returns although the stream is held up: nothing has run yet.
      ASSERT_EQ(twohopAllReduce(b.get(), b.get(), b.count(), twohopFloat32, twohopSum, comm, nullptr), twohopSuccess)
          << last_error(comm);
      EXPECT_EQ(b.get()[0], static_cast<float>(rank + 1));
      open = true;
      gpus.default_stream(rank).synchronize();
      b.expect_sum(2);
    });
}

TEST(GpuCalls, OfOtherCollectivesGiveWhatTheyShould) {
  FakeGpus gpus;
  run_ranks({.nranks = 4, .ranks_per_node = 2}, [&](int rank, twohopComm_t comm) {
    FakeStream stream;
    constexpr size_t kCount = 129;
    Floats all(gpus, 4 * kCount, rank), one(gpus, kCount, rank), root(gpus, kCount, rank);
    one.fill(rank);
    ASSERT_EQ(twohopAllGather(one.get(), all.get(), kCount, twohopFloat32, comm, as_stream(stream)), twohopSuccess);
    root.fill(rank);
    ASSERT_EQ(twohopBroadcast(root.get(), root.get(), kCount, twohopFloat32, 2, comm, as_stream(stream)),
              twohopSuccess);
    ASSERT_EQ(twohopBarrier(comm, as_stream(stream)), twohopSuccess) << last_error(comm);
    stream.synchronize();
    for (size_t i = 0; i < kCount; ++i) {
      ASSERT_EQ(root.get()[i], 3.0f + static_cast<float>(i % 13));
      for (size_t r = 0; r < 4; ++r)
        ASSERT_EQ(all.get()[r * kCount + i], static_cast<float>(r + 1) + static_cast<float>(i % 13));
    }
    ASSERT_EQ(twohopReduceScatter(all.get(), one.get(), kCount, twohopFloat32, twohopMax, comm, as_stream(stream)),
              twohopSuccess);
    stream.synchronize();
    for (size_t i = 0; i < kCount; ++i)
      ASSERT_EQ(one.get()[i], static_cast<float>(rank + 1) + static_cast<float>(i % 13));
  });
}

/// Allocating may wait for a kernel that runs, and that kernel for a rank that allocates.
/// A GPU keeps hundreds of lanes busy: on one node two channels are the host's measure, and a GPU's are as many as fit.
TEST(GpuCalls, HaveAsManyChannelsOnOneNodeAsFit) {
  struct {
    uint32_t lanes = 0;
    size_t bytes = 0;
  } with_two, by_default, where_few_fit;
  for (auto [job_channels, resident, seen] :
       {std::tuple(2, 4096U, &with_two), std::tuple(0, 4096U, &by_default), std::tuple(0, 60U, &where_few_fit)}) {
    FakeGpus gpus({.resident_lanes = resident});
    run_ranks({.nchannels = job_channels}, [&](int rank, twohopComm_t comm) {
      FakeStream stream;
      Floats b(gpus, 1 << 20, rank);
      b.fill(rank);
      ASSERT_EQ(twohopAllReduce(b.get(), b.get(), b.count(), twohopFloat32, twohopSum, comm, as_stream(stream)),
                twohopSuccess)
          << last_error(comm);
      stream.synchronize();
      b.expect_sum(2);
    });
    *seen = {gpus.most_lanes(), gpus.largest_segment()};
  }
  EXPECT_EQ(by_default.lanes, 8 * with_two.lanes) << "16 channels";
  EXPECT_EQ(where_few_fit.lanes, 2 * with_two.lanes) << "4 channels";
  EXPECT_LE(by_default.bytes, 16 * static_cast<size_t>(options()->buff_bytes) + (1 << 20));
  EXPECT_LE(where_few_fit.bytes, by_default.bytes / 2) << "no memory for channels that are not used";
}

TEST(GpuCalls, AllocateNothing) {
  FakeGpus gpus;
  std::atomic<size_t> before{0};
  run_ranks({.nranks = 4, .ranks_per_node = 2, .nchannels = 2}, [&](int rank, twohopComm_t comm) {
    before = gpus.allocations();
    ASSERT_EQ(twohopBarrier(comm, nullptr), twohopSuccess);
    FakeStream stream;
    Floats all(gpus, 40000, rank), one(gpus, 40000, rank);
    for (const size_t count : {3UL, 10000UL}) {
      const twohopStream_t s = as_stream(stream);
      ASSERT_EQ(twohopAllReduce(one.get(), all.get(), count, twohopFloat32, twohopSum, comm, s), twohopSuccess);
      ASSERT_EQ(twohopReduceScatter(all.get(), one.get(), count, twohopFloat32, twohopSum, comm, s), twohopSuccess);
      ASSERT_EQ(twohopAllGather(one.get(), all.get(), count, twohopFloat32, comm, s), twohopSuccess);
      for (int root = 0; root < 4; ++root)
        ASSERT_EQ(twohopBroadcast(one.get(), one.get(), count, twohopFloat32, root, comm, s), twohopSuccess);
    }
    stream.synchronize();
  });
  EXPECT_EQ(gpus.allocations(), before);
}

/// Each rank's GPU is the one that is current where its communicator is asked for: not that of the thread which joins,
/// nor what is current at the end of the group.
TEST(GpuCalls, OfOneThreadForAllRanksRunInAGroup) {
  FakeGpus gpus;
  constexpr int kRanks = 3;
  const auto gpu_of = [](int rank) { return kRanks - 1 - rank; };
  twohopUniqueId id{};
  ASSERT_EQ(twohopGetUniqueId(&id), twohopSuccess);
  twohopComm_t comms[kRanks] = {};
  ASSERT_EQ(twohopGroupStart(), twohopSuccess);
  for (int r = 0; r < kRanks; ++r) {
    FakeGpus::set_device(gpu_of(r));
    ASSERT_EQ(twohopCommInitRank(&comms[r], kRanks, id, r), twohopSuccess);
  }
  FakeGpus::set_device(1);
  ASSERT_EQ(twohopGroupEnd(), twohopSuccess) << last_error();
  FakeStream streams[kRanks];
  Floats buffers[kRanks] = {{gpus, 100, gpu_of(0)}, {gpus, 100, gpu_of(1)}, {gpus, 100, gpu_of(2)}};
  for (int r = 0; r < kRanks; ++r) buffers[r].fill(r);
  ASSERT_EQ(twohopGroupStart(), twohopSuccess);
  for (auto op : {twohopSum, twohopMax})
    for (int r = 0; r < kRanks; ++r) {
      float* at = buffers[r].get();
      EXPECT_EQ(twohopAllReduce(at, at, 100, twohopFloat32, op, comms[r], as_stream(streams[r])), twohopSuccess)
          << last_error();
    }
  ASSERT_EQ(twohopGroupEnd(), twohopSuccess) << last_error();
  for (FakeStream& s : streams) s.synchronize();
  for (const Floats& b : buffers) b.expect_sum(kRanks);
  for (twohopComm_t comm : comms) EXPECT_EQ(twohopCommDestroy(comm), twohopSuccess) << last_error();
}

TEST(GpuCalls, StandBesideCallsOnTheHost) {
  FakeGpus gpus;
  run_ranks({.nranks = 2, .ranks_per_node = 1}, [&](int rank, twohopComm_t comm) {
    FakeStream stream;
    for (int i = 0; i < 3; ++i) {
      Floats b(gpus, 1000, rank);
      b.fill(rank);
      std::vector<float> host(1000, static_cast<float>(rank + 1));
      ASSERT_EQ(twohopAllReduce(b.get(), b.get(), 1000, twohopFloat32, twohopSum, comm, as_stream(stream)),
                twohopSuccess);
      ASSERT_EQ(twohopAllReduce(host.data(), host.data(), 1000, twohopFloat32, twohopSum, comm, nullptr),
                twohopSuccess);
      stream.synchronize();
      b.expect_sum(2);
      for (const float x : host) ASSERT_EQ(x, 3.0f);
    }
  });
}

TEST(GpuGraphs, ReplayCallsAnyNumberOfTimes) {
  FakeGpus gpus;
  for (const int per_node : {2, 1})
    run_ranks({.nranks = 2, .ranks_per_node = per_node}, [&](int rank, twohopComm_t comm) {
      FakeStream stream;
      Floats send(gpus, 700, rank), recv(gpus, 700, rank);
      stream.begin_capture();
      for (int i = 0; i < 2; ++i)
        ASSERT_EQ(twohopAllReduce(send.get(), recv.get(), 700, twohopFloat32, twohopSum, comm, as_stream(stream)),
                  twohopSuccess)
            << last_error(comm);
      const auto graph = stream.end_capture();
      ASSERT_EQ(graph->launches.size(), 2U);
      for (int replay = 0; replay < 4; ++replay) {
        send.fill(rank + 10 * replay);
        stream.replay(*graph);
        // A call that is not captured comes between, in the same stream.
        Floats other(gpus, 10, rank);
        other.fill(rank);
        ASSERT_EQ(twohopAllReduce(other.get(), other.get(), 10, twohopFloat32, twohopSum, comm, as_stream(stream)),
                  twohopSuccess);
        stream.synchronize();
        other.expect_sum(2);
        recv.expect_sum(2, static_cast<float>(10 * replay));
      }
    });
}

TEST(GpuGraphs, KeepTheMemoryOfTheirCallsWhenTheCommunicatorIsDestroyed) {
  FakeGpus gpus;
  std::unique_ptr<FakeGraph> graphs[2];
  std::unique_ptr<FakeStream> streams[2];
  std::vector<std::unique_ptr<Floats>> buffers;
  std::mutex mutex;
  run_ranks({}, [&](int rank, twohopComm_t comm) {
    streams[rank] = std::make_unique<FakeStream>();
    Floats* b = nullptr;
    {
      const std::lock_guard lock(mutex);
      b = buffers.emplace_back(std::make_unique<Floats>(gpus, 64, rank)).get();
    }
    streams[rank]->begin_capture();
    ASSERT_EQ(twohopAllReduce(b->get(), b->get(), 64, twohopFloat32, twohopSum, comm, as_stream(*streams[rank])),
              twohopSuccess);
    graphs[rank] = streams[rank]->end_capture();
  });
  EXPECT_GT(gpus.live_memories(), 0U);
  // The communicator is gone: a replay ends at once, and touches no memory that was freed.
  streams[0]->replay(*graphs[0]);
  streams[0]->synchronize();
  for (auto& graph : graphs) graph.reset();
  run_ranks({.nranks = 1}, [](int, twohopComm_t) {});  // whoever comes by frees it
  EXPECT_EQ(gpus.live_memories(), 0U);
}

}  // namespace
}  // namespace twohop::gpu_test
