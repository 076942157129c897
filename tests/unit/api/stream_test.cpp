// Host streams: order, what a query says, errors, and what happens when something is destroyed while they run.
#include "ranks.hpp"

namespace twohop {
namespace {

class Stream {
 public:
  Stream() { EXPECT_EQ(twohopStreamCreate(&stream_), twohopSuccess) << twohopGetLastError(nullptr); }
  ~Stream() { EXPECT_EQ(twohopStreamDestroy(stream_), twohopSuccess) << twohopGetLastError(nullptr); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  operator twohopStream_t() const { return stream_; }
  void synchronize() const {
    EXPECT_EQ(twohopStreamSynchronize(stream_), twohopSuccess) << twohopGetLastError(nullptr);
  }

 private:
  twohopStream_t stream_ = nullptr;
};

twohopResult_t sum_in_place(int64_t* x, twohopComm_t comm, twohopStream_t stream) {
  return twohopAllReduce(x, x, 1, twohopInt64, twohopSum, comm, stream);
}

TEST(HostStream, RunsItsCallsInOrder) {
  run_ranks(2, [](int, twohopComm_t comm) {
    Stream stream;
    int64_t x = 1;
    for (int i = 0; i < 40; ++i) ASSERT_EQ(sum_in_place(&x, comm, stream), twohopSuccess);
    stream.synchronize();
    EXPECT_EQ(x, int64_t{1} << 40);
    EXPECT_EQ(twohopStreamQuery(stream), twohopSuccess);
  });
}

TEST(HostStream, SaysThatItIsRunningUntilAllRanksHaveCome) {
  Ranks ranks(2);
  Stream mine, others;
  int64_t x = 1, y = 2;
  EXPECT_EQ(twohopStreamQuery(mine), twohopSuccess);
  ASSERT_EQ(sum_in_place(&x, ranks[0], mine), twohopSuccess);
  EXPECT_EQ(twohopStreamQuery(mine), twohopInProgress);  // rank 1 has not called yet
  ASSERT_EQ(sum_in_place(&y, ranks[1], others), twohopSuccess);
  mine.synchronize();
  EXPECT_EQ(twohopStreamQuery(mine), twohopSuccess);
  others.synchronize();
  EXPECT_EQ(x, 3);
  EXPECT_EQ(y, 3);
}

TEST(HostStream, CallsOfOneCommunicatorKeepTheirOrderAcrossStreams) {
  run_ranks(2, [](int, twohopComm_t comm) {
    Stream a, b;
    int64_t x = 1;
    for (int i = 0; i < 20; ++i) {  // each doubles what the one before left
      ASSERT_EQ(sum_in_place(&x, comm, a), twohopSuccess);
      ASSERT_EQ(sum_in_place(&x, comm, b), twohopSuccess);
    }
    ASSERT_EQ(sum_in_place(&x, comm, nullptr), twohopSuccess);  // blocks until those before are done
    EXPECT_EQ(x, int64_t{1} << 41);
  });
}

TEST(HostStream, ServesSeveralCommunicators) {
  Ranks first(1), second(1);
  Stream stream;
  int64_t x = 5;
  ASSERT_EQ(sum_in_place(&x, first[0], stream), twohopSuccess);
  ASSERT_EQ(sum_in_place(&x, second[0], stream), twohopSuccess);
  ASSERT_EQ(twohopBarrier(first[0], stream), twohopSuccess);
  stream.synchronize();
  EXPECT_EQ(x, 5);
}

TEST(HostStream, ReturnsTheFirstErrorOnceOnSynchronize) {
  Ranks ranks(2);
  Stream stream;
  int64_t x = 1;
  ASSERT_EQ(sum_in_place(&x, ranks[0], stream), twohopSuccess);
  ASSERT_EQ(sum_in_place(&x, ranks[0], stream), twohopSuccess);
  ASSERT_EQ(twohopCommAbort(ranks[0]), twohopSuccess);
  expect_refused(twohopStreamSynchronize(stream), twohopAborted, "aborted by rank 0");
  EXPECT_EQ(twohopStreamSynchronize(stream), twohopSuccess);
  EXPECT_EQ(twohopStreamQuery(stream), twohopSuccess);
}

TEST(HostStream, ShowsAnErrorToEveryQueryUntilItIsSynchronized) {
  Ranks ranks(2);
  Stream stream;
  int64_t x = 1;
  ASSERT_EQ(sum_in_place(&x, ranks[0], stream), twohopSuccess);
  ASSERT_EQ(twohopCommAbort(ranks[0]), twohopSuccess);
  twohopResult_t state;
  while ((state = twohopStreamQuery(stream)) == twohopInProgress) std::this_thread::yield();
  EXPECT_EQ(state, twohopAborted);
  EXPECT_EQ(twohopStreamQuery(stream), twohopAborted);
  EXPECT_EQ(twohopStreamSynchronize(stream), twohopAborted);
}

TEST(HostStream, IsRefusedAfterItsDestruction) {
  twohopStream_t stream = nullptr;
  ASSERT_EQ(twohopStreamCreate(&stream), twohopSuccess);
  ASSERT_EQ(twohopStreamDestroy(stream), twohopSuccess);
  expect_refused(twohopStreamDestroy(stream), twohopInvalidArgument, "destroyed");
  expect_refused(twohopStreamQuery(stream), twohopInvalidArgument, "destroyed");
}

TEST(HostStream, DestructionWaitsForItsCalls) {
  run_ranks(2, [](int, twohopComm_t comm) {
    int64_t x = 1;
    {
      Stream stream;
      for (int i = 0; i < 10; ++i) ASSERT_EQ(sum_in_place(&x, comm, stream), twohopSuccess);
    }
    EXPECT_EQ(x, 1024);
  });
}

TEST(HostStream, DestructionOfACommunicatorWaitsForItsCallsOnStreams) {
  const twohopUniqueId id = unique_id();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank)
    threads.emplace_back([&, rank] {
      Stream stream;
      twohopComm_t comm = nullptr;
      ASSERT_EQ(twohopCommInitRank(&comm, 2, id, rank), twohopSuccess) << twohopGetLastError(nullptr);
      int64_t x = 1;
      for (int i = 0; i < 10; ++i) ASSERT_EQ(sum_in_place(&x, comm, stream), twohopSuccess);
      ASSERT_EQ(twohopCommDestroy(comm), twohopSuccess);
      EXPECT_EQ(x, 1024);
      stream.synchronize();
    });
  for (std::thread& t : threads) t.join();
}

TEST(HostStream, CountersMayBeReadWhileItRuns) {
  run_ranks(2, [](int, twohopComm_t comm) {
    Stream stream;
    int64_t x = 0;
    twohopCounters_t counters{};
    counters.size = sizeof counters;
    ASSERT_EQ(sum_in_place(&x, comm, nullptr), twohopSuccess);
    for (int i = 0; i < 20; ++i) {
      ASSERT_EQ(sum_in_place(&x, comm, stream), twohopSuccess);
      ASSERT_EQ(twohopCommGetCounters(comm, &counters), twohopSuccess);
      EXPECT_GE(counters.calls, 1u);
    }
    stream.synchronize();
    ASSERT_EQ(twohopCommGetCounters(comm, &counters), twohopSuccess);
    EXPECT_EQ(counters.calls, 21u);
  });
}

TEST(HostStream, ABadCallIsRefusedAtOnce) {
  Ranks ranks(1);
  Stream stream;
  expect_refused(twohopAllReduce(nullptr, nullptr, 1, twohopInt64, twohopSum, ranks[0], stream), twohopInvalidArgument,
                 "recv is NULL");
  stream.synchronize();
}

}  // namespace
}  // namespace twohop
