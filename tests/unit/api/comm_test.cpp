// Communicators: how they are made and asked, several at once, and what is left of them when they fail or go.
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <numeric>

#include "ranks.hpp"

namespace twohop {
namespace {

void expect_all_reduce_works(twohopComm_t comm, int rank, int nranks, size_t count) {
  std::vector<int32_t> data(count);
  for (size_t i = 0; i < count; ++i) data[i] = static_cast<int32_t>(i) * (rank + 1);
  ASSERT_EQ(twohopAllReduce(data.data(), data.data(), count, twohopInt32, twohopSum, comm, nullptr), twohopSuccess)
      << twohopGetLastError(nullptr);
  const int32_t factor = nranks * (nranks + 1) / 2;
  for (size_t i = 0; i < count; ++i) ASSERT_EQ(data[i], static_cast<int32_t>(i) * factor) << i;
}

TEST(Communicator, KnowsItsRankAndShape) {
  run_ranks(
      5,
      [](int rank, twohopComm_t comm) {
        int my_rank = -1, nranks = -1;
        twohopShape_t shape{};
        EXPECT_EQ(twohopCommUserRank(comm, &my_rank), twohopSuccess);
        EXPECT_EQ(twohopCommCount(comm, &nranks), twohopSuccess);
        EXPECT_EQ(twohopCommShape(comm, &shape), twohopSuccess);
        EXPECT_EQ(my_rank, rank);
        EXPECT_EQ(nranks, 5);
        EXPECT_EQ(shape.nnodes, 3);
        EXPECT_EQ(shape.node, rank / 2);
        EXPECT_EQ(shape.local_rank, rank % 2);
        EXPECT_EQ(shape.local_size, rank == 4 ? 1 : 2);
      },
      ranks_per_node(2));
}

TEST(Communicator, RunsEveryCollective) {
  constexpr int kRanks = 4;
  constexpr size_t kCount = 1001;
  run_ranks(
      kRanks,
      [](int rank, twohopComm_t comm) {
        std::vector<double> all(kRanks * kCount), block(kCount, rank + 1.0);
        ASSERT_EQ(twohopAllGather(block.data(), all.data(), kCount, twohopFloat64, comm, nullptr), twohopSuccess)
            << twohopGetLastError(nullptr);
        for (size_t i = 0; i < all.size(); ++i) ASSERT_EQ(all[i], 1.0 + static_cast<double>(i / kCount));
        ASSERT_EQ(twohopReduceScatter(all.data(), block.data(), kCount, twohopFloat64, twohopMax, comm, nullptr),
                  twohopSuccess);
        for (double x : block) ASSERT_EQ(x, rank + 1.0);
        ASSERT_EQ(twohopBroadcast(block.data(), block.data(), kCount, twohopFloat64, 2, comm, nullptr), twohopSuccess);
        for (double x : block) ASSERT_EQ(x, 3.0);
        ASSERT_EQ(twohopBarrier(comm, nullptr), twohopSuccess);
        expect_all_reduce_works(comm, rank, kRanks, kCount);
      },
      ranks_per_node(2));
}

TEST(Communicator, RanksWithTheirOwnThreadsUseTwoCommunicatorsInTurn) {
  const twohopUniqueId second_id = unique_id();
  run_ranks(3, [&](int rank, twohopComm_t first) {
    twohopComm_t second = nullptr;
    ASSERT_EQ(twohopCommInitRank(&second, 3, second_id, 2 - rank), twohopSuccess) << twohopGetLastError(nullptr);
    for (int i = 0; i < 20; ++i) {
      expect_all_reduce_works(first, rank, 3, 17);
      expect_all_reduce_works(second, 2 - rank, 3, 1000);
    }
    EXPECT_EQ(twohopCommDestroy(second), twohopSuccess);
  });
}

TEST(Communicator, SeveralRunAtOnceInThreadsOfTheirOwn) {
  std::vector<std::thread> jobs;
  for (int job = 0; job < 3; ++job)
    jobs.emplace_back([job] {
      run_ranks(2, [job](int rank, twohopComm_t comm) {
        for (int i = 0; i < 30; ++i) expect_all_reduce_works(comm, rank, 2, 100 * (job + 1));
      });
    });
  for (std::thread& j : jobs) j.join();
}

TEST(Communicator, CountsItsCalls) {
  run_ranks(
      2,
      [](int, twohopComm_t comm) {
        float x = 1;
        for (int i = 0; i < 3; ++i)
          ASSERT_EQ(twohopAllReduce(&x, &x, 1, twohopFloat32, twohopAvg, comm, nullptr), twohopSuccess);
        twohopCounters_t counters{};
        counters.size = sizeof counters;
        ASSERT_EQ(twohopCommGetCounters(comm, &counters), twohopSuccess);
        EXPECT_EQ(counters.calls, 3u);
        EXPECT_GT(counters.net_bytes_sent, 0u);
        EXPECT_GT(counters.puts, 0u);
      },
      ranks_per_node(1));
}

TEST(Communicator, AbortEndsAPendingCallOfAnotherThread) {
  Ranks ranks(2);
  float x = 1;
  std::thread pending([&] {  // rank 1 never comes
    EXPECT_EQ(twohopAllReduce(&x, &x, 1, twohopFloat32, twohopSum, ranks[0], nullptr), twohopAborted);
    EXPECT_THAT(std::string(twohopGetLastError(nullptr)), testing::HasSubstr("aborted by rank 0"));
  });
  EXPECT_EQ(twohopCommAbort(ranks[0]), twohopSuccess);
  pending.join();
  EXPECT_EQ(twohopBarrier(ranks[0], nullptr), twohopAborted);
  EXPECT_THAT(std::string(twohopGetLastError(ranks[0])), testing::HasSubstr("aborted by rank 0"));
  EXPECT_EQ(twohopCommAbort(ranks[0]), twohopSuccess);
  twohopResult_t async_error = twohopSuccess;  // told by the control channel, a little later
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (async_error == twohopSuccess && std::chrono::steady_clock::now() < until)
    ASSERT_EQ(twohopCommGetAsyncError(ranks[1], &async_error), twohopSuccess);
  EXPECT_EQ(async_error, twohopAborted);
  EXPECT_EQ(twohopBarrier(ranks[1], nullptr), twohopAborted);
  twohopRedOp_t op;
  EXPECT_EQ(twohopRedOpCreatePreMulSum(&op, &x, twohopFloat32, ranks[1]), twohopAborted);
  int rank = -1;
  EXPECT_EQ(twohopCommUserRank(ranks[1], &rank), twohopSuccess);
}

TEST(Communicator, CallsThatDoNotMatchFailOnAllRanksAndComputeNothing) {
  run_ranks(3, [](int rank, twohopComm_t comm) {
    float x[2] = {1, 1};
    const auto op = rank == 1 ? twohopMax : twohopSum;
    EXPECT_NE(twohopAllReduce(x, x, 2, twohopFloat32, op, comm, nullptr), twohopSuccess);
    EXPECT_NE(std::string(twohopGetLastError(comm)), "");
    EXPECT_EQ(x[0], 1);
    EXPECT_NE(twohopBarrier(comm, nullptr), twohopSuccess);
  });
}

TEST(Communicator, ARankThatDestroysEarlyDoesNotWaitForTheOthers) {
  Ranks ranks(2);
  ASSERT_EQ(twohopCommDestroy(ranks[1]), twohopSuccess);
  ranks[1] = nullptr;
}

TEST(InitEnv, NamesTheVariableThatIsMissing) {
  for (const char* name : {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}) unsetenv(name);
  twohopComm_t comm = nullptr;
  expect_refused(twohopCommInitEnv(&comm, nullptr), twohopInvalidArgument, "RANK");
}

}  // namespace
}  // namespace twohop
