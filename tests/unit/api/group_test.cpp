// Groups: several ranks in one thread, what is run at the end and in which order, and what an error does to the rest.
#include "ranks.hpp"

namespace twohop {
namespace {

/// One number per rank of `ranks`, summed in place within an open group.
class Numbers {
 public:
  explicit Numbers(Ranks& ranks) : ranks_(ranks), values_(ranks.size(), 1) {}
  void sum(twohopStream_t stream = nullptr) {
    for (int rank = 0; rank < ranks_.size(); ++rank) sum_of(rank, stream);
  }
  void sum_of(int rank, twohopStream_t stream) {
    int64_t* x = &values_[rank];
    EXPECT_EQ(twohopAllReduce(x, x, 1, twohopInt64, twohopSum, ranks_[rank], stream), twohopSuccess)
        << twohopGetLastError(nullptr);
  }
  void expect(int64_t value) const {
    for (int64_t v : values_) EXPECT_EQ(v, value);
  }

 private:
  Ranks& ranks_;
  std::vector<int64_t> values_;
};

void start() {
  ASSERT_EQ(twohopGroupStart(), twohopSuccess);
}
void end() {
  ASSERT_EQ(twohopGroupEnd(), twohopSuccess) << twohopGetLastError(nullptr);
}

class Streams {
 public:
  explicit Streams(int n) : streams_(n) {
    for (twohopStream_t& s : streams_) EXPECT_EQ(twohopStreamCreate(&s), twohopSuccess);
  }
  ~Streams() {
    for (twohopStream_t s : streams_) EXPECT_EQ(twohopStreamDestroy(s), twohopSuccess);
  }
  Streams(const Streams&) = delete;
  Streams& operator=(const Streams&) = delete;
  twohopStream_t operator[](int i) const { return streams_[i]; }
  void synchronize() const {
    for (twohopStream_t s : streams_)
      EXPECT_EQ(twohopStreamSynchronize(s), twohopSuccess) << twohopGetLastError(nullptr);
  }

 private:
  std::vector<twohopStream_t> streams_;
};

TEST(Group, OneThreadHoldsSeveralRanks) {
  for (int nodes_of : {0, 1, 2}) {
    Ranks ranks(4, ranks_per_node(nodes_of));
    Numbers numbers(ranks);
    start();
    numbers.sum();
    end();
    numbers.expect(4);
  }
}

TEST(Group, RunsTheCallsOfACommunicatorInTheirOrder) {
  Ranks ranks(3);
  Numbers numbers(ranks);
  start();
  for (int i = 0; i < 10; ++i) numbers.sum();
  end();
  numbers.expect(59049);
}

TEST(Group, CallsMayBeMadeRankByRank) {
  Ranks ranks(2);
  Numbers numbers(ranks);
  start();
  for (int rank = 0; rank < 2; ++rank)
    for (int i = 0; i < 5; ++i) numbers.sum_of(rank, nullptr);
  end();
  numbers.expect(32);
}

TEST(Group, NestsAndTheOutermostEndDoesTheWork) {
  Ranks ranks(2);
  Numbers numbers(ranks);
  start();
  start();
  numbers.sum();
  end();
  numbers.expect(1);  // nothing has run yet
  end();
  numbers.expect(2);
}

TEST(Group, EndWithoutStartIsInvalidUsage) {
  expect_refused(twohopGroupEnd(), twohopInvalidUsage, "twohopGroupStart");
  start();
  end();
  expect_refused(twohopGroupEnd(), twohopInvalidUsage, "twohopGroupStart");
}

TEST(Group, BelongsToItsThread) {
  start();
  std::thread([] {
    expect_refused(twohopGroupEnd(), twohopInvalidUsage, "no open group");
    Ranks ranks(1);
    int64_t x = 1;
    EXPECT_EQ(twohopAllReduce(&x, &x, 1, twohopInt64, twohopSum, ranks[0], nullptr), twohopSuccess);
  }).join();
  end();
}

TEST(Group, ACommunicatorMadeInItExistsAfterItsEndOnly) {
  const twohopUniqueId id = unique_id();
  auto comm = reinterpret_cast<twohopComm_t>(uintptr_t{1});
  start();
  ASSERT_EQ(twohopCommInitRank(&comm, 1, id, 0), twohopSuccess);
  EXPECT_EQ(comm, nullptr);
  end();
  ASSERT_NE(comm, nullptr);
  EXPECT_EQ(twohopBarrier(comm, nullptr), twohopSuccess);
  EXPECT_EQ(twohopCommDestroy(comm), twohopSuccess);
}

TEST(Group, UsingACommunicatorBeforeItExistsEndsTheGroup) {
  const twohopUniqueId id = unique_id();
  twohopComm_t comm = nullptr;
  start();
  ASSERT_EQ(twohopCommInitRank(&comm, 1, id, 0), twohopSuccess);
  EXPECT_EQ(twohopBarrier(comm, nullptr), twohopInvalidArgument);
  expect_refused(twohopGroupEnd(), twohopInvalidArgument, "comm is NULL");
  EXPECT_EQ(comm, nullptr);
}

TEST(Group, AnErrorWhileCollectingRunsNothing) {
  Ranks ranks(2);
  Numbers numbers(ranks);
  Streams streams(1);
  start();
  numbers.sum();
  numbers.sum(streams[0]);
  EXPECT_EQ(twohopBroadcast(nullptr, nullptr, 1, twohopInt8, 7, ranks[0], nullptr), twohopInvalidArgument);
  expect_refused(twohopGroupEnd(), twohopInvalidArgument, "root=7");
  streams.synchronize();
  numbers.expect(1);
  start();  // the next group is not harmed
  numbers.sum();
  end();
  numbers.expect(2);
}

TEST(Group, ReturnsTheErrorOfAnInit) {
  twohopComm_t comm = nullptr;
  start();
  EXPECT_EQ(twohopCommInitRank(&comm, 2, unique_id(), 5), twohopInvalidArgument);
  expect_refused(twohopGroupEnd(), twohopInvalidArgument, "rank=5");
}

TEST(Group, CallsOfSeveralRanksOnOneStreamRunTogether) {
  Ranks ranks(3);
  Numbers numbers(ranks);
  Streams streams(1);
  start();
  for (int i = 0; i < 3; ++i) numbers.sum(streams[0]);
  end();
  streams.synchronize();
  numbers.expect(27);
}

TEST(Group, ItsEndDoesNotWaitForStreams) {
  Ranks ranks(2);
  Numbers numbers(ranks);
  Streams streams(2);
  start();
  numbers.sum_of(0, streams[0]);
  end();
  EXPECT_EQ(twohopStreamQuery(streams[0]), twohopInProgress);
  start();
  numbers.sum_of(1, streams[1]);
  end();
  streams.synchronize();
  numbers.expect(2);
}

TEST(Group, KeepsTheOrderOfACommunicatorsCallsAcrossStreams) {
  Ranks ranks(2);
  Numbers numbers(ranks);
  Streams streams(2);
  start();
  for (int i = 0; i < 5; ++i) {
    numbers.sum(streams[0]);
    numbers.sum();
    numbers.sum(streams[1]);
  }
  end();
  streams.synchronize();
  numbers.expect(1 << 15);
}

TEST(Group, RanksMayChooseDifferentStreamsForMatchingCalls) {
  Ranks ranks(2);
  Numbers numbers(ranks);
  Streams streams(2);
  start();
  numbers.sum_of(0, streams[0]);
  numbers.sum_of(0, streams[1]);
  for (twohopStream_t stream : {streams[0], streams[0]}) numbers.sum_of(1, stream);
  numbers.sum_of(0, nullptr);
  numbers.sum_of(1, streams[1]);
  end();
  streams.synchronize();
  numbers.expect(8);
}

TEST(Group, HoldsSeveralCommunicatorsOfSeveralThreads) {
  const twohopUniqueId ids[2] = {unique_id(), unique_id()};
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 3; ++rank)
    threads.emplace_back([&, rank] {
      twohopComm_t comms[2];
      start();
      for (int c = 0; c < 2; ++c) ASSERT_EQ(twohopCommInitRank(&comms[c], 3, ids[c], rank), twohopSuccess);
      end();
      int64_t x[2] = {1, 10};
      for (int i = 0; i < 10; ++i) {  // in an order that differs by thread
        start();
        for (int c : {rank % 2, 1 - rank % 2})
          EXPECT_EQ(twohopAllReduce(&x[c], &x[c], 1, twohopInt64, twohopSum, comms[c], nullptr), twohopSuccess);
        end();
      }
      EXPECT_EQ(x[0], 59049);
      EXPECT_EQ(x[1], 590490);
      for (twohopComm_t comm : comms) EXPECT_EQ(twohopCommDestroy(comm), twohopSuccess);
    });
  for (std::thread& t : threads) t.join();
}

TEST(Group, DestructionInItComesAfterItsCalls) {
  Ranks ranks(2);
  Numbers numbers(ranks);
  Streams streams(1);
  start();
  numbers.sum();
  numbers.sum(streams[0]);
  for (twohopComm_t comm : ranks) {
    EXPECT_EQ(twohopCommDestroy(comm), twohopSuccess);
    EXPECT_EQ(twohopCommDestroy(comm), twohopInvalidUsage);  // once is enough
  }
  end();
  numbers.expect(4);
  for (twohopComm_t& comm : ranks) {
    expect_refused(twohopBarrier(comm, nullptr), twohopInvalidArgument, "destroyed");
    comm = nullptr;
  }
}

TEST(Group, ACallAfterDestructionInItIsInvalidUsage) {
  Ranks ranks(1);
  start();
  EXPECT_EQ(twohopCommDestroy(ranks[0]), twohopSuccess);
  EXPECT_EQ(twohopBarrier(ranks[0], nullptr), twohopInvalidUsage);
  expect_refused(twohopGroupEnd(), twohopInvalidUsage, "destroyed earlier");
  ranks[0] = nullptr;
}

TEST(Group, AStreamWithCallsInItCannotBeDestroyed) {
  Ranks ranks(1);
  Numbers numbers(ranks);
  Streams streams(1);
  start();
  numbers.sum(streams[0]);
  expect_refused(twohopStreamDestroy(streams[0]), twohopInvalidUsage, "open group");
  end();
}

TEST(Group, AFailedCommunicatorDoesNotHoldUpTheOthers) {
  Ranks failing(2), healthy(2);
  Numbers numbers(healthy);
  int64_t x = 1;
  std::thread aborter;
  start();
  EXPECT_EQ(twohopAllReduce(&x, &x, 1, twohopInt64, twohopSum, failing[0], nullptr), twohopSuccess);
  numbers.sum();
  aborter = std::thread([&] { EXPECT_EQ(twohopCommAbort(failing[1]), twohopSuccess); });
  EXPECT_EQ(twohopGroupEnd(), twohopAborted);
  aborter.join();
  numbers.expect(2);
}

}  // namespace
}  // namespace twohop
