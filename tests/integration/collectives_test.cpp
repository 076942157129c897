// Is every collective right, for every type, operation, algorithm, shape of cluster and awkward count?
#include <algorithm>
#include <cstring>

#include "collectives/plan/algorithm.hpp"
#include "pattern.hpp"
#include "thread_ranks.hpp"

namespace twohop::test {
namespace {

using perf::Op;
using perf::Pattern;
using perf::TypeInfo;

class Collectives : public testing::TestWithParam<Ranks> {
 protected:
  int n() const { return GetParam().nranks; }
  /// 0, 1, around the number of ranks, primes, and more than one chunk.
  std::vector<size_t> counts() const {
    auto ranks = static_cast<size_t>(n());
    return {0, 1, ranks - 1, ranks, ranks + 1, 997, 65537};
  }
};

twohopRedOp_t make_op(const TypeInfo& type, Op op, int rank, twohopComm_t comm) {
  if (op != Op::kMulSum) return static_cast<twohopRedOp_t>(op);
  unsigned char scalar[8];
  double factor = Pattern::scalar(rank);
  type.floating ? perf::encode(type, factor, scalar) : perf::encode_int(type, static_cast<uint64_t>(factor), scalar);
  twohopRedOp_t handle{};
  EXPECT_OK(twohopRedOpCreatePreMulSum(&handle, scalar, type.type, comm), comm);
  return handle;
}

void free_op(twohopRedOp_t handle, Op op, twohopComm_t comm) {
  if (op == Op::kMulSum) EXPECT_OK(twohopRedOpDestroy(handle, comm), comm);
}

void all_reduce_and_check(const TypeInfo& type, const Pattern& pattern, twohopRedOp_t op, size_t count, bool in_place,
                          size_t offset, int rank, twohopComm_t comm) {
  size_t bytes = count * type.bytes;
  Buffer send(bytes, offset), recv(bytes + 64, offset);
  pattern.fill_input(rank, send.get(), count);
  if (in_place) pattern.fill_input(rank, recv.get(), count);
  std::memset(recv.get() + bytes, 0x5a, 64);
  const void* from = in_place ? recv.get() : send.get();
  ASSERT_EQ(twohopAllReduce(from, recv.get(), count, type.type, op, comm, nullptr), twohopSuccess)
      << twohopGetLastError(comm);
  EXPECT_EQ(pattern.count_wrong_result(recv.get(), count), 0u)
      << type.name << " op " << op << " count " << count << " in place " << in_place << " rank " << rank;
  EXPECT_EQ(pattern.count_wrong_input(rank, send.get(), count), 0u) << "the send buffer was written to";
  for (int i = 0; i < 64; ++i) EXPECT_EQ(recv.get()[bytes + static_cast<size_t>(i)], 0x5a) << "written past the end";
}

TEST_P(Collectives, AllReduceIsRightForEveryTypeAndOperation) {
  constexpr size_t kCount = 1009;
  std::vector<std::pair<const TypeInfo*, Op>> cases;
  std::vector<Pattern> patterns;
  for (const auto& type : perf::types())
    for (const auto& name : perf::op_names()) {
      cases.emplace_back(&type, perf::op_of(name));
      patterns.emplace_back(type, perf::op_of(name), n(), kCount);
    }
  run_ranks(GetParam(), [&](int rank, twohopComm_t comm) {
    for (size_t i = 0; i < cases.size(); ++i) {
      auto [type, op] = cases[i];
      twohopRedOp_t handle = make_op(*type, op, rank, comm);
      for (bool in_place : {false, true})
        all_reduce_and_check(*type, patterns[i], handle, kCount, in_place, 0, rank, comm);
      free_op(handle, op, comm);
    }
  });
}

TEST_P(Collectives, AllReduceIsRightForAwkwardCountsAndAddresses) {
  for (const char* name : {"float", "uint8", "double"}) {
    const TypeInfo& type = perf::type_info(std::string(name));
    Pattern pattern(type, Op::kSum, n(), 65537);
    run_ranks(GetParam(), [&](int rank, twohopComm_t comm) {
      for (size_t count : counts())
        for (size_t offset : {size_t{0}, type.bytes, 7 * type.bytes})
          all_reduce_and_check(type, pattern, twohopSum, count, offset == type.bytes, offset, rank, comm);
    });
  }
}

TEST_P(Collectives, AllReduceIsRightWhenItTakesManyRounds) {
  constexpr size_t kCount = (24 << 20) / 4 + 5;  // several times what all windows hold
  const TypeInfo& type = perf::type_info(twohopFloat32);
  Pattern pattern(type, Op::kSum, n(), kCount);
  run_ranks(GetParam(), [&](int rank, twohopComm_t comm) {
    for (bool in_place : {false, true}) all_reduce_and_check(type, pattern, twohopSum, kCount, in_place, 0, rank, comm);
  });
}

TEST_P(Collectives, ReduceScatterGivesEachRankItsBlock) {
  for (const char* name : {"float", "int8"}) {
    const TypeInfo& type = perf::type_info(std::string(name));
    auto ranks = static_cast<size_t>(n());
    Pattern pattern(type, Op::kSum, n(), 65537 * ranks);
    run_ranks(GetParam(), [&](int rank, twohopComm_t comm) {
      for (size_t count : counts()) {
        Buffer send(count * ranks * type.bytes), recv(count * type.bytes);
        size_t first = count * static_cast<size_t>(rank);
        pattern.fill_input(rank, send.get(), count * ranks);
        EXPECT_OK(twohopReduceScatter(send.get(), recv.get(), count, type.type, twohopSum, comm, nullptr), comm);
        EXPECT_EQ(pattern.count_wrong_result(recv.get(), count, first), 0u) << name << " count " << count;
        EXPECT_EQ(pattern.count_wrong_input(rank, send.get(), count * ranks), 0u) << "the send buffer was written to";
        unsigned char* mine = send.get() + first * type.bytes;
        EXPECT_OK(twohopReduceScatter(send.get(), mine, count, type.type, twohopSum, comm, nullptr), comm);
        EXPECT_EQ(pattern.count_wrong_result(mine, count, first), 0u) << name << " in place, count " << count;
      }
    });
  }
}

TEST_P(Collectives, AllGatherPutsEveryRanksBlockInItsPlace) {
  const TypeInfo& type = perf::type_info(twohopFloat32);
  auto ranks = static_cast<size_t>(n());
  Pattern pattern(type, Op::kSum, n(), 65537);
  run_ranks(GetParam(), [&](int rank, twohopComm_t comm) {
    for (size_t count : counts())
      for (bool in_place : {false, true}) {
        size_t block = count * type.bytes;
        Buffer send(block), recv(block * ranks);
        unsigned char* from = in_place ? recv.get() + block * static_cast<size_t>(rank) : send.get();
        pattern.fill_input(rank, from, count);
        EXPECT_OK(twohopAllGather(from, recv.get(), count, type.type, comm, nullptr), comm);
        for (size_t r = 0; r < ranks; ++r)
          EXPECT_EQ(pattern.count_wrong_input(static_cast<int>(r), recv.get() + block * r, count), 0u)
              << "block " << r << " count " << count << " in place " << in_place;
      }
  });
}

TEST_P(Collectives, BroadcastCopiesFromEveryRoot) {
  const TypeInfo& type = perf::type_info(twohopInt32);
  Pattern pattern(type, Op::kSum, n(), 65537);
  run_ranks(GetParam(), [&](int rank, twohopComm_t comm) {
    for (int root = 0; root < n(); ++root)
      for (size_t count : counts())
        for (bool in_place : {false, true}) {
          Buffer send(count * type.bytes), recv(count * type.bytes);
          unsigned char* from = in_place ? recv.get() : send.get();
          pattern.fill_input(rank, from, count);
          EXPECT_OK(twohopBroadcast(from, recv.get(), count, type.type, root, comm, nullptr), comm);
          EXPECT_EQ(pattern.count_wrong_input(root, recv.get(), count), 0u) << "root " << root << " count " << count;
        }
  });
}

TEST_P(Collectives, BarrierLetsNobodyPassBeforeTheLastHasEntered) {
  std::atomic<int> entered{0};
  run_ranks(GetParam(), [&](int, twohopComm_t comm) {
    for (int round = 1; round <= 20; ++round) {
      ++entered;
      EXPECT_OK(twohopBarrier(comm, nullptr), comm);
      EXPECT_GE(entered.load(), round * n());
    }
  });
}

TEST_P(Collectives, EveryRankGetsTheSameBitsEveryTime) {
  // Values whose sum depends on the order of additions.
  constexpr size_t kCount = 100003;
  std::vector<std::vector<float>> results(static_cast<size_t>(n()) * 2, std::vector<float>(kCount));
  run_ranks(GetParam(), [&](int rank, twohopComm_t comm) {
    std::vector<float> send(kCount);
    for (size_t i = 0; i < kCount; ++i)
      send[i] = 1.0f / static_cast<float>(1 + (i * 7 + static_cast<size_t>(rank) * 13) % 1000);
    for (size_t k = 0; k < 2; ++k)
      EXPECT_OK(twohopAllReduce(send.data(), results[static_cast<size_t>(rank) * 2 + k].data(), kCount, twohopFloat32,
                                twohopSum, comm, nullptr),
                comm);
  });
  for (const auto& result : results) EXPECT_EQ(std::memcmp(result.data(), results[0].data(), kCount * 4), 0);
}

TEST_P(Collectives, DifferentCallsFollowEachOther) {
  // Windows, signals and credits outlive a call: what one leaves behind must not reach the next.
  const TypeInfo& type = perf::type_info(twohopFloat32);
  Pattern pattern(type, Op::kSum, n(), 300000);
  run_ranks(GetParam(), [&](int rank, twohopComm_t comm) {
    Buffer send(300000 * 4), recv(300000 * 4 * static_cast<size_t>(n()));
    for (size_t i = 0; i < 40; ++i) {
      size_t count = i * i * 7919 % 300000;
      pattern.fill_input(rank, send.get(), count);
      if (i % 4 == 1) EXPECT_OK(twohopAllGather(send.get(), recv.get(), count, type.type, comm, nullptr), comm);
      if (i % 4 == 2)
        EXPECT_OK(twohopBroadcast(send.get(), recv.get(), count, type.type, static_cast<int>(i) % n(), comm, nullptr),
                  comm);
      EXPECT_OK(twohopAllReduce(send.get(), recv.get(), count, type.type, twohopSum, comm, nullptr), comm);
      EXPECT_EQ(pattern.count_wrong_result(recv.get(), count), 0u) << "call " << i << " count " << count;
    }
  });
}

/// What is used most goes over many shapes, every other algorithm of the table over some that differ in kind: uneven,
/// an odd number of nodes, several ranks on each of them, all of that.
std::vector<Ranks> shapes() {
  std::vector<Ranks> all;
  for (auto [nranks, per_node] :
       {std::pair{1, 0}, {2, 0}, {2, 1}, {3, 2}, {3, 1}, {4, 0}, {4, 2}, {4, 3}, {5, 2}, {8, 4}, {8, 2}})
    for (const char* algo : {"two-hop", "flat", "auto"}) all.push_back({nranks, per_node, algo});
  for (const Algorithm& a : algorithms())
    if (a.name != "two-hop" && a.name != "flat")
      for (auto [nranks, per_node] : {std::pair{3, 2}, {4, 0}, {5, 1}, {6, 2}, {8, 3}})
        all.push_back({nranks, per_node, a.name.data()});
  return all;
}

std::string shape_name(const testing::TestParamInfo<Ranks>& info) {
  std::string algo = info.param.algo;
  std::replace(algo.begin(), algo.end(), '-', '_');
  return "ranks" + std::to_string(info.param.nranks) + "_pernode" + std::to_string(info.param.ranks_per_node) + "_" +
         algo;
}

INSTANTIATE_TEST_SUITE_P(Shapes, Collectives, testing::ValuesIn(shapes()), shape_name);

}  // namespace
}  // namespace twohop::test
