// Data that goes through host memory: who copies it, and what becomes of calls whose copies are late or fail. Copy
// engines are asked where TWOHOP_USE_CUDA_MEMCPY=1, with which these tests are run once more.
#include <latch>

#include "base/options.hpp"
#include "gpu_ranks.hpp"
#include "unit/transport/captured_log.hpp"

namespace twohop::gpu_test {
namespace {

using testing::HasSubstr;

bool by_engine() {
  return options()->use_cuda_memcpy != 0;
}
/// No network of theirs reaches the fake GPUs, and no communicator comes up where it must.
bool no_network() {
  return options()->require_gdr != 0;
}

twohopResult_t sum(Floats& b, twohopComm_t comm, FakeStream& stream) {
  return twohopAllReduce(b.get(), b.get(), b.count(), twohopFloat32, twohopSum, comm, as_stream(stream));
}
void wait_for_first_copy(FakeGpus& gpus) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (gpus.copies().started == 0 && std::chrono::steady_clock::now() < until) std::this_thread::yield();
  ASSERT_GT(gpus.copies().started, 0U);
}

/// What a kernel that does not wait needs many times over to see that it is stopped, and what a busy machine may take.
constexpr std::chrono::milliseconds kLongForAKernel{100}, kLongForAMachine{20'000};

bool stays_busy(FakeStream& stream, std::chrono::milliseconds limit) {
  const auto until = std::chrono::steady_clock::now() + limit;
  while (stream.busy() && std::chrono::steady_clock::now() < until) std::this_thread::yield();
  return stream.busy();
}

/// GPUs of a node that do not reach each other: windows in host memory.
constexpr Defects kApart{.no_peer_access = true};
constexpr Defects kTogether{};

struct Case {
  const char* name;
  Job job;
  Defects defects;
};
class GpuCopiesOn : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (no_network()) GTEST_SKIP() << "TWOHOP_REQUIRE_GDR=1: nothing goes through host memory";
  }
};

TEST_P(GpuCopiesOn, GiveTheRightSums) {
  FakeGpus gpus(GetParam().defects);
  const Job& job = GetParam().job;
  run_ranks(job, [&](int rank, twohopComm_t comm) {
    FakeStream stream;
    for (const size_t count : {1UL, 1000UL, 30011UL, 200003UL}) {
      Floats b(gpus, count, rank);
      b.fill(rank);
      ASSERT_EQ(sum(b, comm, stream), twohopSuccess) << last_error(comm);
      stream.synchronize();
      b.expect_sum(job.nranks);
    }
  });
  EXPECT_EQ(gpus.copies().copied > 0, by_engine());
  EXPECT_EQ(gpus.copies().copied, gpus.copies().started);
}

/// Copies are asked for by the kernel, so that they are no part of the graph.
TEST_P(GpuCopiesOn, AreMadeAgainAtEveryReplay) {
  FakeGpus gpus(GetParam().defects);
  const Job& job = GetParam().job;
  run_ranks(job, [&](int rank, twohopComm_t comm) {
    FakeStream stream;
    Floats b(gpus, 9000, rank), other(gpus, 700, rank);
    stream.begin_capture();
    ASSERT_EQ(sum(b, comm, stream), twohopSuccess) << last_error(comm);
    const auto graph = stream.end_capture();
    for (int replay = 0; replay < 3; ++replay) {
      b.fill(rank + replay);
      other.fill(rank);
      stream.replay(*graph);
      ASSERT_EQ(sum(other, comm, stream), twohopSuccess) << last_error(comm);
      stream.synchronize();
      b.expect_sum(job.nranks, static_cast<float>(replay));
      other.expect_sum(job.nranks);
    }
  });
  EXPECT_EQ(gpus.copies().copied > 0, by_engine());
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, GpuCopiesOn,
    testing::Values(Case{"node_apart", {.nranks = 3}, kApart},
                    Case{"nodes", {.nranks = 2, .ranks_per_node = 1}, kTogether},
                    Case{"two_by_two", {.nranks = 4, .ranks_per_node = 2, .algo = "two-hop"}, kTogether},
                    Case{"two_by_two_apart", {.nranks = 4, .ranks_per_node = 2, .algo = "two-hop"}, kApart},
                    Case{"uneven_apart", {.nranks = 3, .ranks_per_node = 2, .algo = "two-hop", .nchannels = 2}, kApart},
                    Case{"flat", {.nranks = 3, .ranks_per_node = 2, .algo = "flat"}, kTogether}),
    [](const auto& tested) { return tested.param.name; });

TEST(GpuCopies, AreAnnouncedWithTheReason) {
  if (no_network()) GTEST_SKIP() << "TWOHOP_REQUIRE_GDR=1: nothing goes through host memory";
  const std::string who = by_engine() ? "a copy engine copies" : "the kernels copy";
  const std::string set = by_engine() ? "TWOHOP_USE_CUDA_MEMCPY=1" : "TWOHOP_USE_CUDA_MEMCPY=0";
  const auto log_of = [](const Defects& defects, int ranks_per_node) {
    FakeGpus gpus(defects);
    const test::CapturedLog log;
    run_ranks({.nranks = 2, .ranks_per_node = ranks_per_node}, [](int, twohopComm_t) {});
    return log.text();
  };
  EXPECT_THAT(log_of(kApart, 0),
              HasSubstr("rank 1: GPU 1: " + who + " between GPU memory and the windows in host memory (" + set + ")"));
  EXPECT_THAT(log_of(kTogether, 1), HasSubstr(who + " between GPU memory and what the network sends and receives"));
  EXPECT_THAT(log_of(kTogether, 0), HasSubstr("no data goes through host memory, so that " + set + " changes nothing"));
}

class GpuCopiesThat : public testing::Test {
 protected:
  void SetUp() override {
    if (!by_engine()) GTEST_SKIP() << "run with TWOHOP_USE_CUDA_MEMCPY=1";
  }
};

TEST_F(GpuCopiesThat, ConcernMemoryOfNoGpuAreTheKernels) {
  FakeGpus gpus(kApart);
  for (const MemoryKind kind : {MemoryKind::kManaged, MemoryKind::kPinned})
    run_ranks({}, [&](int rank, twohopComm_t comm) {
      FakeStream stream;
      Floats b(gpus, 5000, rank, kind);
      b.fill(rank);
      ASSERT_EQ(sum(b, comm, stream), twohopSuccess) << last_error(comm);
      stream.synchronize();
      b.expect_sum(2);
    });
  EXPECT_EQ(gpus.copies().started, 0U);
}

TEST_F(GpuCopiesThat, FailEndTheCommunicatorOnAllRanks) {
  for (const Defects& defects : {kApart, kTogether}) {
    FakeGpus gpus(defects);
    gpus.copies().fails_at = 3;
    gpus.copies().held = true;  // until all have launched
    std::latch launched(4);
    run_ranks({.nranks = 4, .ranks_per_node = 2, .algo = "two-hop"}, [&](int rank, twohopComm_t comm) {
      FakeStream stream;
      Floats b(gpus, 30000, rank);
      ASSERT_EQ(sum(b, comm, stream), twohopSuccess) << last_error(comm);
      launched.arrive_and_wait();
      gpus.copies().held = false;
      EXPECT_EQ(awaited_error(comm), twohopUnhandledCudaError) << last_error(comm);
      EXPECT_THAT(last_error(comm), testing::MatchesRegex(".*rank [0-3]: the fake copy engine is broken.*"));
      stream.synchronize();  // kernels leave
      EXPECT_EQ(sum(b, comm, stream), twohopUnhandledCudaError);
    });
  }
}

/// When a kernel has ended its buffers are the user's, and no copy may write into them any more.
TEST_F(GpuCopiesThat, AreUnderWayHoldTheKernelOfAnAbortedCall) {
  for (const Defects& defects : {kApart, kTogether}) {
    FakeGpus gpus(defects);
    gpus.copies().held = true;
    std::latch launched(4), told(4), looked(4);
    std::atomic<int> holding{0};
    run_ranks({.nranks = 4, .ranks_per_node = 2, .algo = "two-hop"}, [&](int rank, twohopComm_t comm) {
      FakeStream stream;
      Floats b(gpus, 30000, rank);
      ASSERT_EQ(sum(b, comm, stream), twohopSuccess) << last_error(comm);
      launched.arrive_and_wait();
      if (rank == 1) {
        wait_for_first_copy(gpus);
        ASSERT_EQ(twohopCommAbort(comm), twohopSuccess);
      }
      EXPECT_EQ(awaited_error(comm), twohopAborted) << last_error(comm);
      told.arrive_and_wait();
      holding += stays_busy(stream, defects.no_peer_access ? kLongForAKernel : kLongForAMachine);
      looked.arrive_and_wait();
      // Of GPUs that reach each other only what is sent is copied: from windows, which are not the user's.
      EXPECT_EQ(holding > 0, defects.no_peer_access) << holding << " kernels wait for their copies";
      gpus.copies().held = false;
      stream.synchronize();
    });
    EXPECT_EQ(gpus.copies().copied, gpus.copies().started);  // the communicators' ends have waited for the rest
  }
}

TEST_F(GpuCopiesThat, NeverEndAreACallWithoutProgress) {
  FakeGpus gpus(kApart);
  gpus.copies().held = true;
  std::latch told(2);
  run_ranks({.nranks = 2, .timeout_s = 2}, [&](int rank, twohopComm_t comm) {
    FakeStream stream;
    Floats b(gpus, 3000, rank);
    ASSERT_EQ(sum(b, comm, stream), twohopSuccess) << last_error(comm);
    EXPECT_EQ(awaited_error(comm), twohopTimeout) << last_error(comm);
    EXPECT_TRUE(stays_busy(stream, kLongForAKernel));
    told.arrive_and_wait();
    gpus.copies().held = false;
    stream.synchronize();
  });
}

TEST_F(GpuCopiesThat, NoEngineMakesAreARefusalOnAllRanks) {
  FakeGpus gpus({.no_peer_access = true, .device_without_engine = 1});
  run_ranks({}, [&](int rank, twohopComm_t comm) {
    FakeStream stream;
    Floats b(gpus, 10, rank);
    EXPECT_EQ(sum(b, comm, stream), twohopInvalidUsage);
    EXPECT_THAT(last_error(), HasSubstr("fake GPU 1 has no copy engine"));
  });
}

/// A graph may outlive its communicator; its kernels must not wait for a progress thread that is gone.
TEST_F(GpuCopiesThat, NobodyMakesAnyMoreHoldNoReplay) {
  FakeGpus gpus(kApart);
  std::unique_ptr<FakeGraph> graph;
  FakeStream stream;
  Floats b(gpus, 3000, 0);
  run_ranks({}, [&](int rank, twohopComm_t comm) {
    FakeStream other;
    FakeStream& mine = rank == 0 ? stream : other;
    Floats of_other(gpus, 3000, 1);
    mine.begin_capture();
    ASSERT_EQ(sum(rank == 0 ? b : of_other, comm, mine), twohopSuccess) << last_error(comm);
    auto captured = mine.end_capture();
    mine.replay(*captured);
    mine.synchronize();
    if (rank == 0) graph = std::move(captured);
  });
  const uint64_t started = gpus.copies().started;
  stream.replay(*graph);
  stream.synchronize();
  EXPECT_EQ(gpus.copies().started, started);
  graph.reset();
}

}  // namespace
}  // namespace twohop::gpu_test
