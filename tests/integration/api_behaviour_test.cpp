// Does the API keep its promises around the collectives: arguments, groups, streams, several communicators, abort,
// mismatched calls, and the numeric rules that a sum of small integers cannot show?
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>

#include "pattern.hpp"
#include "thread_ranks.hpp"

namespace twohop::test {
namespace {

using perf::Op;
using perf::Pattern;

const perf::TypeInfo& kFloat = perf::type_info(twohopFloat32);

TEST(Shape, RanksPerNodeCutsOneHostIntoVirtualNodes) {
  run_ranks({5, 2}, [](int rank, twohopComm_t comm) {
    twohopShape_t shape{};
    int r = -1, n = -1;
    EXPECT_OK(twohopCommShape(comm, &shape), comm);
    EXPECT_OK(twohopCommUserRank(comm, &r), comm);
    EXPECT_OK(twohopCommCount(comm, &n), comm);
    EXPECT_EQ(r, rank);
    EXPECT_EQ(n, 5);
    EXPECT_EQ(shape.nnodes, 3);
    EXPECT_EQ(shape.node, rank / 2);
    EXPECT_EQ(shape.local_rank, rank % 2);
    EXPECT_EQ(shape.local_size, rank == 4 ? 1 : 2);
  });
}

TEST(Arguments, AreRefusedWithoutHarm) {
  run_ranks({2, 1}, [](int rank, twohopComm_t comm) {
    std::vector<float> a(100, 1.0f), b(200);
    auto refused = [&](twohopResult_t got, const char* what) {
      EXPECT_EQ(got, twohopInvalidArgument) << what;
      EXPECT_STRNE(twohopGetLastError(comm), "") << what;
    };
    refused(twohopAllReduce(nullptr, b.data(), 1, twohopFloat32, twohopSum, comm, nullptr), "send NULL");
    refused(twohopAllReduce(a.data(), nullptr, 1, twohopFloat32, twohopSum, comm, nullptr), "recv NULL");
    refused(twohopAllReduce(b.data(), b.data() + 1, 50, twohopFloat32, twohopSum, comm, nullptr), "overlap above");
    refused(twohopAllReduce(b.data() + 49, b.data(), 50, twohopFloat32, twohopSum, comm, nullptr), "overlap below");
    refused(twohopAllReduce(a.data(), b.data(), 1, static_cast<twohopDataType_t>(99), twohopSum, comm, nullptr),
            "type");
    refused(twohopAllReduce(a.data(), b.data(), 1, twohopFloat32, static_cast<twohopRedOp_t>(77), comm, nullptr), "op");
    refused(
        twohopAllReduce(reinterpret_cast<char*>(a.data()) + 1, b.data(), 1, twohopFloat32, twohopSum, comm, nullptr),
        "alignment");
    refused(twohopBroadcast(a.data(), b.data(), 1, twohopFloat32, 2, comm, nullptr), "root");
    refused(twohopBroadcast(a.data(), b.data(), 1, twohopFloat32, -1, comm, nullptr), "root");
    refused(twohopReduceScatter(b.data(), b.data() + (rank == 0 ? 10 : 0), 50, twohopFloat32, twohopSum, comm, nullptr),
            "reduce-scatter in place at another rank's block");
    refused(twohopAllGather(b.data() + 1, b.data(), 50, twohopFloat32, comm, nullptr), "all-gather overlap");
    // None of this reached the other rank or broke the communicator.
    EXPECT_OK(twohopAllReduce(a.data(), b.data(), 100, twohopFloat32, twohopSum, comm, nullptr), comm);
    EXPECT_EQ(b[99], 2.0f);
  });
}

TEST(Arguments, NullCommunicatorsAndBadRanksAreRefused) {
  float x = 0, y = 0;
  EXPECT_EQ(twohopAllReduce(&x, &y, 1, twohopFloat32, twohopSum, nullptr, nullptr), twohopInvalidArgument);
  EXPECT_EQ(twohopBarrier(nullptr, nullptr), twohopInvalidArgument);
  EXPECT_EQ(twohopCommDestroy(nullptr), twohopSuccess);
  twohopUniqueId id;
  ASSERT_EQ(twohopGetUniqueId(&id), twohopSuccess);
  twohopComm_t comm = nullptr;
  EXPECT_EQ(twohopCommInitRank(&comm, 2, id, 2), twohopInvalidArgument);
  EXPECT_EQ(twohopCommInitRank(&comm, 2, id, -1), twohopInvalidArgument);
  EXPECT_EQ(twohopCommInitRank(&comm, 0, id, 0), twohopInvalidArgument);
  EXPECT_EQ(twohopCommInitRank(nullptr, 1, id, 0), twohopInvalidArgument);
  twohopUniqueId garbage;
  std::memset(&garbage, 0x77, sizeof garbage);
  EXPECT_EQ(twohopCommInitRank(&comm, 1, garbage, 0), twohopInvalidArgument);
  twohopConfig_t config = TWOHOP_CONFIG_INITIALIZER;
  config.algo = "two-hops";
  EXPECT_EQ(twohopCommInitRankConfig(&comm, 1, id, 0, &config), twohopInvalidArgument);
  EXPECT_NE(std::strstr(twohopGetLastError(nullptr), "two-hops"), nullptr) << twohopGetLastError(nullptr);
}

TEST(Group, OneThreadHoldsSeveralRanks) {
  constexpr int kRanks = 4;
  constexpr size_t kCount = 50021;
  twohopUniqueId id;
  ASSERT_EQ(twohopGetUniqueId(&id), twohopSuccess);
  twohopComm_t comms[kRanks] = {};
  twohopConfig_t config = config_of({kRanks, 2});
  ASSERT_EQ(twohopGroupStart(), twohopSuccess);
  for (int r = 0; r < kRanks; ++r)
    ASSERT_EQ(twohopCommInitRankConfig(&comms[r], kRanks, id, r, &config), twohopSuccess);
  ASSERT_EQ(twohopGroupEnd(), twohopSuccess) << twohopGetLastError(nullptr);

  Pattern pattern(kFloat, Op::kSum, kRanks, kCount);
  std::vector<Buffer> send(kRanks, Buffer(kCount * 4)), recv(kRanks, Buffer(kCount * 4));
  for (int round = 0; round < 3; ++round) {
    ASSERT_EQ(twohopGroupStart(), twohopSuccess);
    for (int r = 0; r < kRanks; ++r) {
      auto i = static_cast<size_t>(r);
      pattern.fill_input(r, send[i].get(), kCount);
      EXPECT_OK(twohopAllReduce(send[i].get(), recv[i].get(), kCount, twohopFloat32, twohopSum, comms[r], nullptr),
                comms[r]);
    }
    ASSERT_EQ(twohopGroupEnd(), twohopSuccess) << twohopGetLastError(nullptr);
    for (auto& buffer : recv) EXPECT_EQ(pattern.count_wrong_result(buffer.get(), kCount), 0u);
  }
  for (auto* comm : comms) EXPECT_OK(twohopCommDestroy(comm), nullptr);
}

TEST(Group, NestsAndHoldsSeveralCallsOfOneCommunicator) {
  run_ranks({3, 2}, [](int rank, twohopComm_t comm) {
    Pattern pattern(kFloat, Op::kSum, 3, 5000);
    Buffer send(5000 * 4), a(5000 * 4), b(5000 * 4);
    pattern.fill_input(rank, send.get(), 5000);
    EXPECT_OK(twohopGroupStart(), comm);
    EXPECT_OK(twohopAllReduce(send.get(), a.get(), 5000, twohopFloat32, twohopSum, comm, nullptr), comm);
    EXPECT_OK(twohopGroupStart(), comm);
    EXPECT_OK(twohopAllReduce(send.get(), b.get(), 4001, twohopFloat32, twohopSum, comm, nullptr), comm);
    EXPECT_OK(twohopGroupEnd(), comm);
    EXPECT_OK(twohopGroupEnd(), comm);
    EXPECT_EQ(pattern.count_wrong_result(a.get(), 5000), 0u);
    EXPECT_EQ(pattern.count_wrong_result(b.get(), 4001), 0u);
  });
}

TEST(Group, AnEndWithoutAStartIsRefused) {
  EXPECT_EQ(twohopGroupEnd(), twohopInvalidUsage);
}

TEST(Stream, RunsCallsInOrderWithoutBlocking) {
  run_ranks({4, 2}, [](int rank, twohopComm_t comm) {
    Pattern pattern(kFloat, Op::kSum, 4, 200003);
    twohopStream_t stream = nullptr;
    EXPECT_OK(twohopStreamCreate(&stream), nullptr);
    std::vector<Buffer> send(5, Buffer(200003 * 4)), recv(5, Buffer(200003 * 4));
    for (size_t k = 0; k < 5; ++k) {
      pattern.fill_input(rank, send[k].get(), 200003);
      EXPECT_OK(twohopAllReduce(send[k].get(), recv[k].get(), 200003, twohopFloat32, twohopSum, comm, stream), comm);
    }
    EXPECT_OK(twohopStreamSynchronize(stream), comm);
    EXPECT_EQ(twohopStreamQuery(stream), twohopSuccess);
    for (auto& buffer : recv) EXPECT_EQ(pattern.count_wrong_result(buffer.get(), 200003), 0u);
    EXPECT_OK(twohopStreamDestroy(stream), nullptr);
  });
}

TEST(Stream, ACallThatOthersHaveNotJoinedDoesNotBlockTheCaller) {
  std::atomic<bool> queued{false};
  run_ranks({2, 1}, [&](int rank, twohopComm_t comm) {
    float x = 1, y = 0;
    twohopStream_t stream = nullptr;
    EXPECT_OK(twohopStreamCreate(&stream), nullptr);
    if (rank == 1)
      while (!queued) std::this_thread::yield();  // rank 0 has returned from its call before rank 1 makes one
    EXPECT_OK(twohopAllReduce(&x, &y, 1, twohopFloat32, twohopSum, comm, stream), comm);
    if (rank == 0) queued = true;
    EXPECT_OK(twohopStreamSynchronize(stream), comm);
    EXPECT_EQ(y, 2.0f);
    EXPECT_OK(twohopStreamDestroy(stream), nullptr);
  });
}

TEST(Communicators, SeveralInOneThreadDoNotMixUp) {
  run_ranks({3, 2}, [](int rank, twohopComm_t first) {
    // The id of the second communicator travels over the first one.
    twohopUniqueId id{};
    if (rank == 0) EXPECT_OK(twohopGetUniqueId(&id), nullptr);
    EXPECT_OK(twohopBroadcast(&id, &id, sizeof id, twohopUint8, 0, first, nullptr), first);
    twohopComm_t second = nullptr;
    twohopConfig_t config = config_of({3, 1, "flat"});
    EXPECT_OK(twohopCommInitRankConfig(&second, 3, id, 2 - rank, &config), nullptr);
    for (int i = 0; i < 20; ++i) {
      float x = static_cast<float>(rank), y = 0, z = 0;
      EXPECT_OK(twohopAllReduce(&x, &y, 1, twohopFloat32, twohopSum, first, nullptr), first);
      EXPECT_OK(twohopAllReduce(&x, &z, 1, twohopFloat32, twohopMax, second, nullptr), second);
      EXPECT_EQ(y, 3.0f);
      EXPECT_EQ(z, 2.0f);
    }
    EXPECT_OK(twohopCommDestroy(second), nullptr);
  });
}

TEST(Communicators, TwoThreadsOfAProcessUseTheirOwnAtTheSameTime) {
  auto work = [](size_t count) {
    run_ranks({2, 1}, [count](int rank, twohopComm_t comm) {
      Pattern pattern(kFloat, Op::kSum, 2, count);
      Buffer send(count * 4), recv(count * 4);
      pattern.fill_input(rank, send.get(), count);
      for (int i = 0; i < 50; ++i) {
        EXPECT_OK(twohopAllReduce(send.get(), recv.get(), count, twohopFloat32, twohopSum, comm, nullptr), comm);
        EXPECT_EQ(pattern.count_wrong_result(recv.get(), count), 0u);
      }
    });
  };
  std::thread a(work, 3001), b(work, 20011);
  a.join();
  b.join();
}

TEST(Counters, CountCallsAndBytesThatLeaveTheNode) {
  run_ranks({2, 1, "two-hop"}, [](int, twohopComm_t comm) {
    constexpr size_t kBytes = 4 << 20;
    Buffer send(kBytes), recv(kBytes);
    twohopCounters_t before{}, after{};
    before.size = after.size = sizeof before;
    EXPECT_OK(twohopCommGetCounters(comm, &before), comm);
    EXPECT_OK(twohopAllReduce(send.get(), recv.get(), kBytes / 4, twohopFloat32, twohopSum, comm, nullptr), comm);
    EXPECT_OK(twohopCommGetCounters(comm, &after), comm);
    EXPECT_EQ(after.calls - before.calls, 1u);
    auto sent = static_cast<double>(after.net_bytes_sent - before.net_bytes_sent);
    EXPECT_GE(sent, kBytes) << "2(N-1)/N x S = S with 2 nodes";
    EXPECT_LE(sent, 1.03 * kBytes);
  });
}

/// Every rank makes a call of its own; all must end with twohopInvalidUsage and an unwritten receive buffer.
void expect_mismatch(const std::function<twohopResult_t(int, const float*, float*, twohopComm_t)>& call) {
  for (const Ranks& ranks : {Ranks{2, 0}, Ranks{2, 1}, Ranks{4, 2}, Ranks{3, 0}})
    run_ranks(ranks, [&](int rank, twohopComm_t comm) {
      std::vector<float> send(1000, 1.0f), recv(1000, -7.0f);
      EXPECT_EQ(call(rank, send.data(), recv.data(), comm), twohopInvalidUsage)
          << ranks.nranks << " ranks, " << ranks.ranks_per_node << " per node, rank " << rank << ": "
          << twohopGetLastError(comm);
      // Refuses further calls, and can be destroyed.
      EXPECT_NE(twohopAllReduce(send.data(), recv.data(), 1, twohopFloat32, twohopSum, comm, nullptr), twohopSuccess);
    });
}

twohopCounters_t counters_of(twohopComm_t comm, size_t size = sizeof(twohopCounters_t)) {
  twohopCounters_t counters{};
  counters.size = size;
  EXPECT_OK(twohopCommGetCounters(comm, &counters), comm);
  return counters;
}

TEST(Counters, TellControlPathFromFastPath) {
  run_ranks({.nranks = 2, .ranks_per_node = 1}, [](int, twohopComm_t comm) {
    const twohopCounters_t before = counters_of(comm);
    EXPECT_GT(before.init_ns, 0u);
    EXPECT_EQ(before.first_call_ns, 0u);
    std::vector<float> data(1 << 18, 1);
    auto reduce = [&] {
      EXPECT_OK(twohopAllReduce(data.data(), data.data(), data.size(), twohopFloat32, twohopMax, comm, nullptr), comm);
    };
    reduce();
    const twohopCounters_t first = counters_of(comm);
    EXPECT_GT(first.first_call_ns, 0u);
    EXPECT_EQ(first.call_ns, 0u);
    for (int i = 0; i < 3; ++i) reduce();
    const twohopCounters_t after = counters_of(comm);
    EXPECT_EQ(after.first_call_ns, first.first_call_ns);
    EXPECT_GT(after.call_ns, 0u);
    EXPECT_EQ(after.init_ns, before.init_ns);
    // Memory is registered while joining, never by a call.
    EXPECT_EQ(after.registrations, before.registrations);
    EXPECT_EQ(after.registration_ns, before.registration_ns);
  });
}

TEST(Counters, OfTheRailsAddUp) {
  run_ranks({.nranks = 2, .ranks_per_node = 1}, [](int, twohopComm_t comm) {
    std::vector<float> data(1 << 18, 1);
    for (int i = 0; i < 4; ++i)
      EXPECT_OK(twohopAllReduce(data.data(), data.data(), data.size(), twohopFloat32, twohopMax, comm, nullptr), comm);
    const twohopCounters_t c = counters_of(comm);
    if (c.nrails == 0) {  // over TCP
      for (uint64_t n : {c.work_requests, c.doorbells, c.signalled_completions, c.held_ns, c.post_ns, c.completion_ns,
                         c.registrations, c.registered_bytes, c.registration_ns, c.nretry_rails, c.retries})
        EXPECT_EQ(n, 0u);
      return;
    }
    uint64_t bytes = 0;
    for (size_t i = 0; i < TWOHOP_MAX_RAILS; ++i) {
      bytes += c.rail_bytes[i];
      EXPECT_EQ(c.rail_port[i] != 0, i < c.nrails) << i;
    }
    EXPECT_EQ(bytes, 4 * data.size() * sizeof data[0]);  // 2(N-1)/N of each call, N = 2
    EXPECT_NE(c.rail_port[0], c.rail_port[1]);
    EXPECT_LE(c.doorbells, c.work_requests);
    EXPECT_GE(c.work_requests, c.puts + c.credits);
    EXPECT_GT(c.signalled_completions, 0u);
    EXPECT_GT(c.post_ns, 0u);
    EXPECT_GT(c.completion_ns, 0u);
    EXPECT_GT(c.registered_bytes, 0u);
    EXPECT_GT(c.registration_ns, 0u);
    EXPECT_EQ(c.nretry_rails, c.nrails);
    // A caller that has no room for the devices' own counters gets the rest.
    const twohopCounters_t cheap = counters_of(comm, offsetof(twohopCounters_t, nretry_rails));
    EXPECT_EQ(cheap.rail_bytes[0], c.rail_bytes[0]);
    EXPECT_EQ(cheap.rail_port[0], 0u);
  });
}

TEST(Mismatch, OfCountsIsReportedByAllRanks) {
  expect_mismatch([](int rank, const float* send, float* recv, twohopComm_t comm) {
    return twohopAllReduce(send, recv, rank == 0 ? 1000 : 999, twohopFloat32, twohopSum, comm, nullptr);
  });
}

TEST(Mismatch, WithACountOfZeroIsReportedByAllRanks) {
  expect_mismatch([](int rank, const float* send, float* recv, twohopComm_t comm) {
    return twohopAllReduce(send, recv, rank == 0 ? 0 : 8, twohopFloat32, twohopSum, comm, nullptr);
  });
}

TEST(Mismatch, OfTypesIsReportedByAllRanks) {
  expect_mismatch([](int rank, const float* send, float* recv, twohopComm_t comm) {
    return twohopAllReduce(send, recv, 100, rank == 1 ? twohopInt32 : twohopFloat32, twohopSum, comm, nullptr);
  });
}

TEST(Mismatch, OfOperationsIsReportedByAllRanks) {
  expect_mismatch([](int rank, const float* send, float* recv, twohopComm_t comm) {
    return twohopAllReduce(send, recv, 100, twohopFloat32, rank == 1 ? twohopMax : twohopSum, comm, nullptr);
  });
}

TEST(Mismatch, OfCollectivesIsReportedByAllRanks) {
  expect_mismatch([](int rank, const float* send, float* recv, twohopComm_t comm) {
    return rank == 0 ? twohopBroadcast(send, recv, 100, twohopFloat32, 0, comm, nullptr)
                     : twohopAllReduce(send, recv, 100, twohopFloat32, twohopSum, comm, nullptr);
  });
}

TEST(Mismatch, OfRootsIsReportedByAllRanks) {
  expect_mismatch([](int rank, const float* send, float* recv, twohopComm_t comm) {
    return twohopBroadcast(send, recv, 100, twohopFloat32, rank == 0 ? 0 : 1, comm, nullptr);
  });
}

TEST(Mismatch, OfTheNumberOfCallsIsReportedOnceARankHasLeft) {
  for (const Ranks& ranks : {Ranks{3, 0}, Ranks{3, 1}, Ranks{4, 2}}) {
    std::atomic<int> done{0};
    run_ranks(ranks, [&](int rank, twohopComm_t comm) {
      std::vector<float> data(1000);
      EXPECT_OK(twohopAllReduce(data.data(), data.data(), 1000, twohopFloat32, twohopSum, comm, nullptr), comm);
      ++done;
      while (done < ranks.nranks) std::this_thread::yield();  // or the error below would end a call that is right
      if (rank == 0) return;                                  // and destroys its communicator
      EXPECT_EQ(twohopAllReduce(data.data(), data.data(), 1000, twohopFloat32, twohopSum, comm, nullptr),
                twohopInvalidUsage)
          << twohopGetLastError(comm);
      EXPECT_NE(std::string(twohopGetLastError(comm)).find("destroyed its communicator"), std::string::npos)
          << twohopGetLastError(comm);
    });
  }
}

TEST(Abort, FromAnotherThreadEndsTheCallsOfAllRanks) {
  for (const Ranks& ranks : {Ranks{3, 0}, Ranks{3, 1}, Ranks{4, 2}})
    run_ranks(ranks, [&](int rank, twohopComm_t comm) {
      std::vector<float> send(1000), recv(1000);
      if (rank == 0) {
        // Never joins the call: the others wait in it until this abort.
        std::thread([comm] { EXPECT_OK(twohopCommAbort(comm), nullptr); }).join();
      } else {
        EXPECT_EQ(twohopAllReduce(send.data(), recv.data(), 1000, twohopFloat32, twohopSum, comm, nullptr),
                  twohopAborted)
            << twohopGetLastError(comm);
      }
      EXPECT_EQ(twohopAllReduce(send.data(), recv.data(), 1, twohopFloat32, twohopSum, comm, nullptr), twohopAborted);
      twohopResult_t state = twohopSuccess;
      EXPECT_OK(twohopCommGetAsyncError(comm, &state), nullptr);
      EXPECT_EQ(state, twohopAborted);
    });
}

TEST(Timeout, OfACallThatOneRankNeverMakesIsReported) {
  for (int per_node : {0, 1}) {
    Ranks ranks{2, per_node};
    ranks.timeout_s = 1;
    std::atomic<bool> done{false};
    run_ranks(ranks, [&](int rank, twohopComm_t comm) {
      float x = 1, y = 0;
      if (rank == 0) {
        EXPECT_EQ(twohopAllReduce(&x, &y, 1, twohopFloat32, twohopSum, comm, nullptr), twohopTimeout)
            << twohopGetLastError(comm);
        EXPECT_NE(std::strstr(twohopGetLastError(comm), "1"), nullptr) << twohopGetLastError(comm);
        done = true;
      }
      while (!done) std::this_thread::yield();
    });
  }
}

TEST(Numbers, AverageOfLargeHalvesDoesNotOverflow) {
  const auto& half = perf::type_info(twohopFloat16);
  run_ranks({4, 2}, [&](int, twohopComm_t comm) {
    alignas(2) unsigned char x[2], y[2];
    perf::encode(half, 60000 - 60000 % 32, x);
    EXPECT_OK(twohopAllReduce(x, y, 1, twohopFloat16, twohopAvg, comm, nullptr), comm);
    EXPECT_EQ(perf::decode(half, y), 60000 - 60000 % 32);
  });
}

TEST(Numbers, MinAndMaxIgnoreNaNUnlessAllAreAndOrderZeros) {
  run_ranks({4, 2}, [](int rank, twohopComm_t comm) {
    float nan = std::numeric_limits<float>::quiet_NaN();
    float x[3] = {rank == 2 ? nan : static_cast<float>(rank), nan, rank % 2 ? 0.0f : -0.0f}, low[3], high[3];
    EXPECT_OK(twohopAllReduce(x, low, 3, twohopFloat32, twohopMin, comm, nullptr), comm);
    EXPECT_OK(twohopAllReduce(x, high, 3, twohopFloat32, twohopMax, comm, nullptr), comm);
    EXPECT_EQ(low[0], 0.0f);
    EXPECT_EQ(high[0], 3.0f);
    EXPECT_TRUE(std::isnan(low[1]) && std::isnan(high[1]));
    EXPECT_TRUE(std::signbit(low[2]) && !std::signbit(high[2]));
  });
}

}  // namespace
}  // namespace twohop::test
