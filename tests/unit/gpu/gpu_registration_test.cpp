// Registered device memory: the other ranks of the node read it where it lies, as long as it is the memory that was
// registered; registering is done together, and ends together.
#include <algorithm>

#include "api/comm_handle.hpp"
#include "base/options.hpp"
#include "gpu_ranks.hpp"

namespace twohop::gpu_test {
namespace {

using testing::HasSubstr;

uint64_t direct_calls(twohopComm_t comm) {
  return comm->communicator->gpu()->direct_calls();
}

twohopResult_t add(twohopComm_t comm, const Floats& buffer, void** handle) {
  return twohopCommRegister(comm, buffer.get(), buffer.count() * sizeof(float), handle);
}

/// All-reduces on the stream and waits for it.
void sum(twohopComm_t comm, FakeStream& stream, const Floats& send, const Floats& recv, size_t count) {
  ASSERT_EQ(twohopAllReduce(send.get(), recv.get(), count, twohopFloat32, twohopSum, comm, as_stream(stream)),
            twohopSuccess)
      << last_error(comm);
  stream.synchronize();
}

class GpuRegistrationOn : public testing::TestWithParam<Job> {};

TEST_P(GpuRegistrationOn, IsReadWhereItLies) {
  FakeGpus gpus;
  const Job job = GetParam();
  run_ranks(job, [&](int rank, twohopComm_t comm) {
    FakeStream stream;
    Floats send(gpus, 40000, rank), recv(gpus, 40000, rank);
    void* handle = nullptr;
    ASSERT_EQ(add(comm, send, &handle), twohopSuccess) << last_error(comm);
    send.fill(rank);
    sum(comm, stream, send, recv, 40000);
    recv.expect_sum(job.nranks);
    EXPECT_EQ(direct_calls(comm), 1U);
    // In place, and a part of it. One-shot calls stage what is in place: all ranks read it.
    sum(comm, stream, send, send, 40000);
    send.expect_sum(job.nranks);
    EXPECT_EQ(direct_calls(comm), std::string(job.algo) == "one-shot" ? 1U : 2U);
    ASSERT_EQ(twohopCommDeregister(comm, handle), twohopSuccess) << last_error(comm);
    if (job.ranks_per_node == 0) {
      EXPECT_EQ(gpus.regions(), 0) << "nobody maps it any more";
    }
    const uint64_t before = direct_calls(comm);
    send.fill(rank);
    sum(comm, stream, send, recv, 40000);
    recv.expect_sum(job.nranks);
    EXPECT_EQ(direct_calls(comm), before) << "staged again";
  });
}

INSTANTIATE_TEST_SUITE_P(Shapes, GpuRegistrationOn,
                         testing::Values(Job{.nranks = 2, .algo = "two-hop"}, Job{.nranks = 3, .algo = "two-hop"},
                                         Job{.nranks = 3, .algo = "one-shot"}, Job{.nranks = 3, .algo = "node-ring"},
                                         Job{.nranks = 4, .ranks_per_node = 2, .algo = "two-hop"}),
                         [](const auto& job) {
                           std::string name = job.param.algo + std::to_string(job.param.nranks) + "_" +
                                              std::to_string(job.param.ranks_per_node);
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(GpuRegistration, AllowsEveryRankItsOwnBuffersAndPlaces) {
  FakeGpus gpus;
  run_ranks({.nranks = 3, .algo = "two-hop"}, [&](int rank, twohopComm_t comm) {
    FakeStream stream;
    Floats send(gpus, 3000 + 100 * static_cast<size_t>(rank), rank), recv(gpus, 3000, rank), other(gpus, 3000, rank);
    void* handle = nullptr;
    ASSERT_EQ(add(comm, send, &handle), twohopSuccess) << last_error(comm);
    for (size_t i = 0; i < 2; ++i) {
      // Ranks that send what is not registered are staged, beside others that are not.
      Floats& from = rank == 1 ? other : send;
      from.fill(rank);
      float* at = from.get() + (rank == 2 ? 13 : 0);  // 13: what fill() repeats after
      ASSERT_EQ(twohopAllReduce(at, recv.get(), 2900, twohopFloat32, twohopSum, comm, as_stream(stream)), twohopSuccess)
          << last_error(comm);
      stream.synchronize();
      for (size_t k = 0; k < 2900; ++k) ASSERT_EQ(recv.get()[k], 6.0F + 3.0F * static_cast<float>(k % 13));
    }
    EXPECT_EQ(direct_calls(comm), rank == 1 ? 0U : 2U);
  });
  EXPECT_EQ(gpus.regions(), 0) << "the communicators' end is theirs";
}

TEST(GpuRegistration, ServesReduceScatterAndLeavesOtherCollectivesStaged) {
  FakeGpus gpus;
  run_ranks({.nranks = 2}, [&](int rank, twohopComm_t comm) {
    FakeStream stream;
    constexpr size_t kCount = 1300;
    Floats send(gpus, 2 * kCount, rank), recv(gpus, 2 * kCount, rank);
    void* handle = nullptr;
    ASSERT_EQ(add(comm, send, &handle), twohopSuccess) << last_error(comm);
    send.fill(rank);
    ASSERT_EQ(twohopReduceScatter(send.get(), recv.get(), kCount, twohopFloat32, twohopAvg, comm, as_stream(stream)),
              twohopSuccess);
    stream.synchronize();
    for (size_t i = 0; i < kCount; ++i) ASSERT_EQ(recv.get()[i], 1.5F + static_cast<float>(i % 13));
    EXPECT_EQ(direct_calls(comm), 1U);
    ASSERT_EQ(twohopAllGather(send.get(), recv.get(), kCount, twohopFloat32, comm, as_stream(stream)), twohopSuccess);
    ASSERT_EQ(twohopBroadcast(send.get(), recv.get(), kCount, twohopFloat32, 1, comm, as_stream(stream)),
              twohopSuccess);
    stream.synchronize();
    EXPECT_EQ(recv.get()[5], 7.0F);
    EXPECT_EQ(direct_calls(comm), 1U);
  });
}

TEST(GpuRegistration, OfMemoryThatWasFreedIsNeverUsed) {
  FakeGpus gpus;
  run_ranks({.nranks = 2}, [&](int rank, twohopComm_t comm) {
    FakeStream stream;
    Floats send(gpus, 5000, rank), recv(gpus, 5000, rank);
    void* handle = nullptr;
    ASSERT_EQ(add(comm, send, &handle), twohopSuccess) << last_error(comm);
    send.fill(40);  // what is in the memory that was registered
    gpus.free_and_allocate_again(reinterpret_cast<std::byte*>(send.get()));
    for (int i = 0; i < 2; ++i) {
      send.fill(rank);
      sum(comm, stream, send, recv, 5000);
      recv.expect_sum(2);
    }
    EXPECT_EQ(direct_calls(comm), 0U);
    ASSERT_EQ(twohopCommDeregister(comm, handle), twohopSuccess) << last_error(comm);
    ASSERT_EQ(add(comm, send, &handle), twohopSuccess) << last_error(comm);
    sum(comm, stream, send, recv, 5000);
    recv.expect_sum(2);
    EXPECT_EQ(direct_calls(comm), 1U) << "what is there now was registered";
  });
}

TEST(GpuRegistration, IsNotEndedWhileAGraphHoldsIt) {
  FakeGpus gpus;
  run_ranks({.nranks = 2}, [&](int rank, twohopComm_t comm) {
    FakeStream stream;
    Floats send(gpus, 900, rank), recv(gpus, 900, rank);
    void* handle = nullptr;
    ASSERT_EQ(add(comm, send, &handle), twohopSuccess) << last_error(comm);
    stream.begin_capture();
    ASSERT_EQ(twohopAllReduce(send.get(), recv.get(), 900, twohopFloat32, twohopSum, comm, as_stream(stream)),
              twohopSuccess);
    auto graph = stream.end_capture();
    EXPECT_EQ(direct_calls(comm), 1U);
    if (rank == 1) graph->held.clear();  // only rank 0's graph is still there: both ranks have to wait for it
    EXPECT_EQ(twohopCommDeregister(comm, handle), twohopInvalidUsage);
    EXPECT_THAT(last_error(comm), HasSubstr(rank == 0 ? "used by a captured call" : "rank 0 does not deregister"));
    for (int replay = 0; replay < 2; ++replay) {
      send.fill(rank + replay);
      stream.replay(*graph);
      stream.synchronize();
      recv.expect_sum(2, static_cast<float>(replay));
    }
    graph.reset();
    EXPECT_EQ(twohopCommDeregister(comm, handle), twohopSuccess) << last_error(comm);
    EXPECT_EQ(gpus.regions(), 0);
  });
}

TEST(GpuRegistration, OfMemAllocDeviceIsSymmetricAndFreedAfterwards) {
  FakeGpus gpus;
  run_ranks({.nranks = 2}, [&](int rank, twohopComm_t comm) {
    FakeStream stream;
    void *memory = nullptr, *handle = nullptr;
    ASSERT_EQ(twohopMemAllocDevice(&memory, 8192), twohopSuccess) << last_error();
    ASSERT_EQ(twohopCommRegister(comm, memory, 8192, &handle), twohopSuccess) << last_error(comm);
    auto* values = static_cast<float*>(memory);
    EXPECT_EQ(values[2047], 0.0F);
    for (int i = 0; i < 2048; ++i) values[i] = static_cast<float>(rank + i);
    ASSERT_EQ(twohopAllReduce(values, values, 2048, twohopFloat32, twohopSum, comm, as_stream(stream)), twohopSuccess)
        << last_error(comm);
    stream.synchronize();
    for (int i = 0; i < 2048; ++i) ASSERT_EQ(values[i], static_cast<float>(1 + 2 * i));
    EXPECT_EQ(twohopMemFree(memory), twohopInvalidUsage) << "it is registered";
    ASSERT_EQ(twohopCommDeregister(comm, handle), twohopSuccess) << last_error(comm);
    EXPECT_EQ(twohopMemFree(memory), twohopSuccess) << last_error();
    EXPECT_EQ(twohopMemFree(memory), twohopInvalidArgument);
  });
}

TEST(GpuRegistration, IsRefusedOnAllRanksWhereOneCannotDoItsPart) {
  for (const bool maps : {true, false}) {
    FakeGpus gpus(maps ? Defects{.maps_no_user_memory = 1} : Defects{.shares_no_user_memory = 1});
    run_ranks({.nranks = 2}, [&](int rank, twohopComm_t comm) {
      FakeStream stream;
      Floats buffer(gpus, 300, rank);
      void* handle = nullptr;
      EXPECT_NE(add(comm, buffer, &handle), twohopSuccess);
      EXPECT_THAT(last_error(comm), HasSubstr(rank == 0 ? "rank 1 does not register" : "memory of the user's"));
      EXPECT_EQ(gpus.regions(), 0);
      buffer.fill(rank);
      sum(comm, stream, buffer, buffer, 300);
      buffer.expect_sum(2);
    });
  }
}

TEST(GpuRegistration, NeedsAllRanksInTheSameOrderAndNothingPending) {
  FakeGpus gpus;
  run_ranks({.nranks = 2}, [&](int rank, twohopComm_t comm) {
    Floats a(gpus, 100, rank), b(gpus, 100, rank);
    void *first = nullptr, *second = nullptr;
    ASSERT_EQ(add(comm, a, &first), twohopSuccess) << last_error(comm);
    EXPECT_EQ(add(comm, a, &second), twohopInvalidUsage) << "it overlaps";
    ASSERT_EQ(add(comm, b, &second), twohopSuccess) << last_error(comm);
    EXPECT_EQ(twohopCommDeregister(comm, rank == 0 ? first : second), twohopInvalidUsage);
    EXPECT_THAT(last_error(comm), HasSubstr("in the same order"));
    ASSERT_EQ(twohopGroupStart(), twohopSuccess);
    void* third = nullptr;
    EXPECT_EQ(add(comm, a, &third), twohopInvalidUsage);
    EXPECT_THAT(last_error(comm), HasSubstr("outside of groups"));
    ASSERT_EQ(twohopGroupEnd(), twohopSuccess);

    std::atomic<bool> open{false};
    FakeStream stream;
    stream.enqueue([&] {
      while (!open) std::this_thread::yield();
    });
    ASSERT_EQ(twohopAllReduce(a.get(), a.get(), 100, twohopFloat32, twohopSum, comm, as_stream(stream)), twohopSuccess);
    EXPECT_EQ(twohopCommDeregister(comm, first), twohopInvalidUsage);
    EXPECT_THAT(last_error(comm), HasSubstr("pending"));
    open = true;
    stream.synchronize();
    EXPECT_EQ(twohopCommDeregister(comm, first), twohopSuccess) << last_error(comm);
  });
}

TEST(GpuRegistration, ThatARankDoesNotJoinRunsOutOfTime) {
  FakeGpus gpus;
  run_ranks({.nranks = 2, .timeout_s = 1}, [&](int rank, twohopComm_t comm) {
    Floats buffer(gpus, 100, rank);
    void* handle = nullptr;
    if (rank == 0) {
      EXPECT_EQ(add(comm, buffer, &handle), twohopTimeout);
      EXPECT_THAT(last_error(comm), HasSubstr("rank 1 has not come to register"));
    }
    EXPECT_EQ(awaited_error(comm), twohopTimeout);
  });
}

TEST(GpuRegistration, IsNotEndedWithARankThatHasDestroyedItsCommunicator) {
  FakeGpus gpus;
  run_ranks({.nranks = 2, .timeout_s = 600}, [&](int rank, twohopComm_t comm) {
    Floats buffer(gpus, 100, rank);
    void* handle = nullptr;
    ASSERT_EQ(add(comm, buffer, &handle), twohopSuccess) << last_error(comm);
    if (rank == 1) return;  // destroys it
    EXPECT_EQ(twohopCommDeregister(comm, handle), twohopInvalidUsage);
    EXPECT_THAT(last_error(comm), HasSubstr("rank 1 has destroyed its communicator"));
  });
}

TEST(GpuRegistration, NamesAHandleThatItDoesNotKnow) {
  FakeGpus gpus;
  run_ranks({.nranks = 2}, [&](int, twohopComm_t comm) {
    EXPECT_EQ(twohopCommDeregister(comm, reinterpret_cast<void*>(uintptr_t{0x8000000000000005})),
              twohopInvalidArgument);
    EXPECT_THAT(last_error(comm), HasSubstr("0x8000000000000005"));
  });
}

TEST(GpuRegistration, ChangesNothingWhereNobodyReadsIt) {
  for (const bool peers : {true, false}) {
    if (!peers && options()->require_gdr != 0)
      continue;  // nothing to do with it, but it would be an error between nodes
    FakeGpus gpus(peers ? Defects{} : Defects{.no_peer_access = true});
    run_ranks({.nranks = peers ? 1 : 2}, [&](int rank, twohopComm_t comm) {
      FakeStream stream;
      Floats buffer(gpus, 100, rank);
      void* handle = nullptr;
      ASSERT_EQ(add(comm, buffer, &handle), twohopSuccess) << last_error(comm);
      buffer.fill(rank);
      sum(comm, stream, buffer, buffer, 100);
      buffer.expect_sum(peers ? 1 : 2);
      EXPECT_EQ(direct_calls(comm), 0U);
      EXPECT_EQ(twohopCommDeregister(comm, handle), twohopSuccess) << last_error(comm);
    });
  }
}

TEST(GpuRegistration, IsOfDeviceMemoryThatTheCommunicatorCanUse) {
  FakeGpus gpus({.device_without_context = 0});
  run_ranks({.nranks = 1}, [&](int, twohopComm_t comm) {
    Floats device(gpus, 64, 0), managed(gpus, 64, 0, MemoryKind::kManaged), pinned(gpus, 64, 0, MemoryKind::kPinned);
    void* handle = nullptr;
    EXPECT_EQ(add(comm, device, &handle), twohopInvalidUsage);
    EXPECT_THAT(last_error(comm), HasSubstr("rank 0 had no GPU"));
    EXPECT_EQ(add(comm, managed, &handle), twohopInvalidArgument);
    EXPECT_THAT(last_error(comm), HasSubstr("managed memory"));
    ASSERT_EQ(add(comm, pinned, &handle), twohopSuccess) << last_error();  // as other host memory
    EXPECT_EQ(twohopCommDeregister(comm, handle), twohopSuccess);
  });
}

}  // namespace
}  // namespace twohop::gpu_test
