// Calls on GPU memory that cannot be, or go wrong: refusals say what to do, failures reach every rank and end kernels.
#include <chrono>

#include "base/options.hpp"
#include "gpu_ranks.hpp"

namespace twohop::gpu_test {
namespace {

using testing::HasSubstr;

twohopResult_t sum(const float* send, float* recv, size_t count, twohopComm_t comm, twohopStream_t stream = nullptr) {
  return twohopAllReduce(send, recv, count, twohopFloat32, twohopSum, comm, stream);
}

void expect_refused(twohopResult_t result, twohopResult_t code, const std::string& text) {
  EXPECT_EQ(result, code) << last_error();
  EXPECT_THAT(last_error(), HasSubstr(text));
}

TEST(GpuRefusals, NameTheBufferAndWhatIsAccepted) {
  FakeGpus gpus;
  run_ranks({.nranks = 1}, [&](int, twohopComm_t comm) {
    Floats device(gpus, 64, 0), pinned(gpus, 64, 0, MemoryKind::kPinned), elsewhere(gpus, 64, 5);
    std::vector<float> host(64, 1);
    expect_refused(sum(host.data(), device.get(), 64, comm), twohopInvalidArgument, "memory that CUDA does not know");
    expect_refused(sum(device.get(), host.data(), 64, comm), twohopInvalidArgument, "recv=");
    expect_refused(sum(pinned.get(), host.data(), 64, comm), twohopInvalidArgument, "pinned host memory");
    expect_refused(sum(elsewhere.get(), device.get(), 64, comm), twohopInvalidArgument, "memory of GPU 5");
    twohopStream_t stream = nullptr;
    ASSERT_EQ(twohopStreamCreate(&stream), twohopSuccess);
    expect_refused(sum(device.get(), device.get(), 64, comm, stream), twohopInvalidArgument, "cudaStream_t");
    // What a host stream can reach, it runs on the host.
    pinned.fill(0);
    EXPECT_EQ(sum(pinned.get(), pinned.get(), 64, comm, stream), twohopSuccess) << last_error();
    EXPECT_EQ(twohopStreamSynchronize(stream), twohopSuccess);
    EXPECT_EQ(twohopStreamDestroy(stream), twohopSuccess);
    EXPECT_EQ(async_error(comm), twohopSuccess);
  });
}

TEST(GpuRefusals, HostMemoryTakesNoCudaStream) {
  FakeGpus gpus;
  run_ranks({.nranks = 1}, [&](int, twohopComm_t comm) {
    FakeStream stream;
    std::vector<float> host(8, 1);
    expect_refused(sum(host.data(), host.data(), 8, comm, as_stream(stream)), twohopInvalidArgument,
                   "is not a twohop stream");
  });
}

TEST(GpuRefusals, AreForAllRanksWhereOneHasNoGpu) {
  FakeGpus gpus({.device_without_context = 1});
  run_ranks({}, [&](int rank, twohopComm_t comm) {
    Floats device(gpus, 64, rank), pinned(gpus, 64, rank, MemoryKind::kPinned);
    expect_refused(sum(device.get(), device.get(), 64, comm), twohopInvalidUsage, "rank 1 had no GPU");
    pinned.fill(rank);
    EXPECT_EQ(sum(pinned.get(), pinned.get(), 64, comm), twohopSuccess) << last_error();  // on the host, blocking
    pinned.expect_sum(2);
  });
}

TEST(GpuSetUp, UsesTheHostsMemoryWhereGpusDoNotReachEachOther) {
  for (const bool known : {true, false})  // that they do not: then mapping is not tried
    for (const int per_node : {0, 2}) {
      if (per_node != 0 && options()->require_gdr != 0) continue;  // an error then
      FakeGpus gpus({.no_peer_access = !known, .peers_are_known_to_be = !known});
      run_ranks({.nranks = 3, .ranks_per_node = per_node}, [&](int rank, twohopComm_t comm) {
        FakeStream stream;
        Floats b(gpus, 5000, rank);
        b.fill(rank);
        ASSERT_EQ(sum(b.get(), b.get(), 5000, comm, as_stream(stream)), twohopSuccess) << last_error();
        stream.synchronize();
        b.expect_sum(3);
      });
    }
}

TEST(GpuSetUp, UsesAsManyChannelsAsFitOnTheGpu) {
  FakeGpus gpus({.resident_lanes = 60});
  run_ranks({.nranks = 2, .nchannels = 16, .one_gpu = true}, [&](int rank, twohopComm_t comm) {
    FakeStream stream;
    Floats b(gpus, 100000, 0);
    b.fill(rank);
    ASSERT_EQ(sum(b.get(), b.get(), b.count(), comm, as_stream(stream)), twohopSuccess) << last_error();
    stream.synchronize();
    b.expect_sum(2);
  });
}

TEST(GpuSetUp, RefusesGpuMemoryWhereNotOneChannelFits) {
  FakeGpus gpus({.resident_lanes = 2});
  run_ranks({.one_gpu = true}, [&](int, twohopComm_t comm) {
    Floats b(gpus, 10, 0);
    expect_refused(sum(b.get(), b.get(), 10, comm), twohopInvalidUsage, "lanes of a channel resident");
  });
}

/// Each in turn, until there are no more: the communicator comes up, and its ranks agree on what they can do.
TEST(GpuSetUp, AnAllocationThatFailsIsARefusalOnAllRanksOrNone) {
  int refused = 0;
  for (size_t nth = 1;; ++nth) {
    FakeGpus gpus({.failing_allocation = nth});
    std::atomic<int> ranks_refused{0};
    run_ranks({.nranks = 2}, [&](int rank, twohopComm_t comm) {
      FakeStream stream;
      Floats b(gpus, 10, rank);
      b.fill(rank);
      if (const twohopResult_t made = sum(b.get(), b.get(), 10, comm, as_stream(stream)); made == twohopSuccess) {
        stream.synchronize();
        b.expect_sum(2);
      } else {
        ++ranks_refused;
        EXPECT_EQ(made, twohopInvalidUsage);
        EXPECT_THAT(last_error(), HasSubstr("the fake GPUs are out of memory"));
      }
      std::vector<float> host(10, 1);
      EXPECT_EQ(sum(host.data(), host.data(), 10, comm), twohopSuccess) << last_error(comm);
    });
    if (gpus.allocations() < nth) break;
    EXPECT_TRUE(ranks_refused == 0 || ranks_refused == 2) << ranks_refused << " ranks at allocation " << nth;
    refused += ranks_refused > 0;
  }
  EXPECT_GT(refused, 0);
}

/// Run with a device that refuses one queue pair of the GPUs' connections, after all of the host's. The ranks that wait
/// for it would wait until TWOHOP_INIT_TIMEOUT_S, which is longer than the test may take.
TEST(GpuSetUpUnderRefusal, NoRankWaitsForConnectionsThatWillNotCome) {
  if (std::getenv("GPU_TEST_REFUSAL") == nullptr) GTEST_SKIP() << "run as ctest does: unit/gpu/connections_refused";
  FakeGpus gpus;
  run_ranks({.nranks = 5, .ranks_per_node = 1}, [&](int rank, twohopComm_t comm) {
    FakeStream stream;
    Floats b(gpus, 10, rank);
    expect_refused(sum(b.get(), b.get(), 10, comm, as_stream(stream)), twohopInvalidUsage, "it could not be set up");
    EXPECT_THAT(last_error(), HasSubstr("Cannot allocate memory"));
    std::vector<float> host(10, 1);
    EXPECT_EQ(sum(host.data(), host.data(), 10, comm), twohopSuccess) << last_error(comm);
    EXPECT_EQ(host[0], 5.0f);
  });
}

/// Run with a libcuda.so.1 that is older than the CUDA runtime. Calls on host memory work; one line says what would
/// not.
TEST(GpuSetUpUnderAnOldDriver, IsWarnedOfOnceInAProcess) {
  if (std::getenv("GPU_TEST_OLD_DRIVER") == nullptr) GTEST_SKIP() << "run as ctest does: unit/gpu/old_driver";
  testing::internal::CaptureStderr();
  run_ranks({.nranks = 3}, [&](int, twohopComm_t comm) {
    std::vector<float> host(10, 1);
    EXPECT_EQ(sum(host.data(), host.data(), 10, comm), twohopSuccess) << last_error(comm);
    EXPECT_EQ(host[0], 3.0f);
  });
  const std::string log = testing::internal::GetCapturedStderr();
  const size_t at = log.find("WARN no GPU can be used");
  ASSERT_NE(at, std::string::npos) << log;
  EXPECT_EQ(log.find("no GPU can be used", at + 20), std::string::npos) << log;
  EXPECT_THAT(log, HasSubstr("the driver is for CUDA 11.2, and twohop was built with CUDA "));
  void* memory = nullptr;
  expect_refused(twohopMemAllocDevice(&memory, 100), twohopInvalidUsage, "cudaErrorInsufficientDriver");
}

TEST(GpuFailures, CallsThatDoNotMatchAreReportedOnAllRanks) {
  for (const int per_node : {3, 1}) {
    FakeGpus gpus;
    run_ranks({.nranks = 3, .ranks_per_node = per_node}, [&](int rank, twohopComm_t comm) {
      FakeStream stream;
      Floats b(gpus, 200, rank);
      const size_t count = rank == 1 ? 199 : 200;
      ASSERT_EQ(sum(b.get(), b.get(), count, comm, as_stream(stream)), twohopSuccess) << last_error();
      stream.synchronize();  // kernels leave
      const twohopResult_t error = awaited_error(comm);
      EXPECT_EQ(error, twohopInvalidUsage) << last_error(comm);
      EXPECT_THAT(last_error(comm), HasSubstr("count=199"));
      expect_refused(sum(b.get(), b.get(), 200, comm, as_stream(stream)), twohopInvalidUsage, "does not match");
    });
  }
}

TEST(GpuFailures, AHostCallWhereAnotherRankCallsOnTheGpuIsReportedOnAllRanks) {
  for (const int per_node : {3, 1}) {
    FakeGpus gpus;
    run_ranks({.nranks = 3, .ranks_per_node = per_node}, [&](int rank, twohopComm_t comm) {
      FakeStream stream;
      Floats b(gpus, 200, rank);
      std::vector<float> host(200, 1);
      // Before it goes wrong, calls of both kinds in the same order.
      ASSERT_EQ(sum(b.get(), b.get(), 200, comm, as_stream(stream)), twohopSuccess) << last_error();
      ASSERT_EQ(sum(host.data(), host.data(), 200, comm), twohopSuccess) << last_error();
      if (rank == 1) {
        ASSERT_EQ(sum(b.get(), b.get(), 200, comm, as_stream(stream)), twohopSuccess) << last_error();
      } else {
        EXPECT_EQ(sum(host.data(), host.data(), 200, comm), twohopInvalidUsage) << last_error();
      }
      EXPECT_EQ(awaited_error(comm), twohopInvalidUsage);
      EXPECT_THAT(last_error(comm), HasSubstr("a call on host memory where rank 1 makes one on GPU memory"));
      stream.synchronize();  // kernels leave
    });
  }
}

/// Calls are counted when they are made, and those of a group that an error has ended never are.
TEST(GpuFailures, AGroupThatFailedOnOneRankIsNoMismatchOfLaterCalls) {
  FakeGpus gpus;
  run_ranks({.nranks = 2}, [&](int rank, twohopComm_t comm) {
    FakeStream stream;
    Floats b(gpus, 200, rank);
    std::vector<float> host(200, 1);
    if (rank == 0) {
      ASSERT_EQ(twohopGroupStart(), twohopSuccess);
      ASSERT_EQ(sum(host.data(), host.data(), 200, comm), twohopSuccess) << last_error(comm);
      EXPECT_EQ(sum(nullptr, host.data(), 200, comm), twohopInvalidArgument);
      EXPECT_EQ(twohopGroupEnd(), twohopInvalidArgument);
    }
    ASSERT_EQ(sum(host.data(), host.data(), 200, comm), twohopSuccess) << last_error(comm);
    b.fill(rank);
    // Longer than the second after which counts are compared.
    if (rank == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2500));
    ASSERT_EQ(sum(b.get(), b.get(), 200, comm, as_stream(stream)), twohopSuccess) << last_error(comm);
    stream.synchronize();
    b.expect_sum(2);
  });
}

TEST(GpuFailures, AnAbortEndsKernelsThatWait) {
  for (const int per_node : {2, 1}) {
    FakeGpus gpus;
    std::atomic<bool> launched{false};
    run_ranks({.nranks = 2, .ranks_per_node = per_node}, [&](int rank, twohopComm_t comm) {
      FakeStream stream;
      Floats b(gpus, 200, rank);
      if (rank == 0) {
        EXPECT_EQ(sum(b.get(), b.get(), 200, comm, as_stream(stream)), twohopSuccess) << last_error();
        launched = true;
      } else {
        while (!launched) std::this_thread::yield();
        ASSERT_EQ(twohopCommAbort(comm), twohopSuccess);
      }
      EXPECT_EQ(awaited_error(comm), twohopAborted) << last_error(comm);
      stream.synchronize();
    });
  }
}

TEST(GpuFailures, ACallThatARankNeverMakesRunsOutOfTime) {
  FakeGpus gpus;
  run_ranks({.nranks = 2, .timeout_s = 1}, [&](int rank, twohopComm_t comm) {
    FakeStream stream;
    Floats b(gpus, 200, rank);
    if (rank == 0) {
      ASSERT_EQ(sum(b.get(), b.get(), 200, comm, as_stream(stream)), twohopSuccess) << last_error();
    }
    EXPECT_EQ(awaited_error(comm), twohopTimeout) << last_error(comm);
    EXPECT_THAT(last_error(comm), HasSubstr("rank 1 has not entered"));
    stream.synchronize();
  });
}

TEST(GpuFailures, ALaunchThatFailsEndsTheCommunicatorOnAllRanks) {
  FakeGpus gpus({.launches_fail = true});
  run_ranks({}, [&](int rank, twohopComm_t comm) {
    Floats b(gpus, 200, rank);
    if (rank == 0) {
      expect_refused(sum(b.get(), b.get(), 200, comm), twohopUnhandledCudaError, "refuses to launch");
    }
    EXPECT_NE(awaited_error(comm), twohopSuccess);
    EXPECT_THAT(last_error(comm), HasSubstr("refuses to launch"));
  });
}

}  // namespace
}  // namespace twohop::gpu_test
