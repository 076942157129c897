// Does anything break over many random calls on many random clusters? TEST_SECONDS says for how long (default
// 5), and TEST_SEED where to start; a failure prints the seed of its job.
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <random>

#include "collectives/plan/algorithm.hpp"
#include "pattern.hpp"
#include "thread_ranks.hpp"

namespace twohop::test {
namespace {

using perf::Op;
using perf::Pattern;
using perf::TypeInfo;

uint64_t from_environment(const char* name, uint64_t standard) {
  const char* text = std::getenv(name);
  return text ? std::strtoull(text, nullptr, 10) : standard;
}

/// One call, drawn alike by all ranks from generators of the same seed.
struct RandomCall {
  enum Kind { kAllReduce, kReduceScatter, kAllGather, kBroadcast, kBarrier } kind;
  const TypeInfo* type;
  Op op;
  size_t count;
  int root;
  bool in_place;
  size_t offset;  // elements

  static RandomCall draw(std::mt19937_64& rng, int nranks) {
    const auto pick = [&](size_t n) { return static_cast<size_t>(rng() % n); };
    RandomCall c{};
    const size_t kind = pick(10);
    c.kind = kind < 6 ? kAllReduce : static_cast<Kind>(kind - 5);
    c.type = &perf::types()[pick(perf::types().size())];
    c.op = static_cast<Op>(pick(5));
    c.count = (size_t{1} << pick(c.kind == kAllReduce ? 19 : 16)) - 1 + pick(3);
    c.root = static_cast<int>(pick(static_cast<size_t>(nranks)));
    c.in_place = pick(2) == 1;
    c.offset = pick(9);
    return c;
  }
};

/// Makes the call on one rank and returns the number of wrong elements.
uint64_t make(const RandomCall& c, const Ranks& ranks, int rank, twohopComm_t comm) {
  const size_t blocks =
      c.kind == RandomCall::kReduceScatter || c.kind == RandomCall::kAllGather ? size_t(ranks.nranks) : 1;
  const size_t block_bytes = c.count * c.type->bytes, mine = static_cast<size_t>(rank) * block_bytes;
  Buffer a(blocks * block_bytes, c.offset * c.type->bytes), b(blocks * block_bytes, c.offset * c.type->bytes);
  const Pattern pattern(*c.type, c.op, ranks.nranks, c.count * blocks);
  const auto op = static_cast<twohopRedOp_t>(c.op);
  const auto type = c.type->type;
  switch (c.kind) {
    case RandomCall::kAllReduce: {
      unsigned char* send = c.in_place ? b.get() : a.get();
      pattern.fill_input(rank, send, c.count);
      EXPECT_OK(twohopAllReduce(send, b.get(), c.count, type, op, comm, nullptr), comm);
      return pattern.count_wrong_result(b.get(), c.count);
    }
    case RandomCall::kReduceScatter: {
      pattern.fill_input(rank, a.get(), c.count * blocks);
      unsigned char* recv = c.in_place ? a.get() + mine : b.get();
      EXPECT_OK(twohopReduceScatter(a.get(), recv, c.count, type, op, comm, nullptr), comm);
      return pattern.count_wrong_result(recv, c.count, c.count * static_cast<size_t>(rank));
    }
    case RandomCall::kAllGather: {
      unsigned char* send = c.in_place ? b.get() + mine : a.get();
      pattern.fill_input(rank, send, c.count);
      EXPECT_OK(twohopAllGather(send, b.get(), c.count, type, comm, nullptr), comm);
      uint64_t wrong = 0;
      for (int r = 0; r < ranks.nranks; ++r)
        wrong += pattern.count_wrong_input(r, b.get() + static_cast<size_t>(r) * block_bytes, c.count);
      return wrong;
    }
    case RandomCall::kBroadcast: {
      unsigned char* send = c.in_place ? b.get() : a.get();
      if (rank == c.root) pattern.fill_input(rank, send, c.count);
      EXPECT_OK(twohopBroadcast(send, b.get(), c.count, type, c.root, comm, nullptr), comm);
      return pattern.count_wrong_input(c.root, b.get(), c.count);
    }
    case RandomCall::kBarrier:
      EXPECT_OK(twohopBarrier(comm, nullptr), comm);
  }
  return 0;
}

void run_job(uint64_t seed) {
  SCOPED_TRACE("TEST_SEED=" + std::to_string(seed));
  std::mt19937_64 rng(seed);
  std::vector<std::string> choices{"auto", "^two-hop"};
  for (const Algorithm& a : algorithms()) choices.emplace_back(a.name);
  Ranks ranks;
  ranks.nranks = 1 + static_cast<int>(rng() % 8);
  ranks.ranks_per_node = static_cast<int>(rng() % 5);
  const std::string algo = choices[rng() % choices.size()];
  ranks.algo = algo.c_str();
  const uint64_t calls_seed = rng();
  run_ranks(ranks, [&](int rank, twohopComm_t comm) {
    std::mt19937_64 calls(calls_seed);
    for (int i = 0; i < 40; ++i) {
      const RandomCall c = RandomCall::draw(calls, ranks.nranks);
      ASSERT_EQ(make(c, ranks, rank, comm), 0u)
          << "TEST_SEED=" << seed << " call " << i << " kind " << c.kind << " " << c.type->name << " op "
          << static_cast<int>(c.op) << " count " << c.count << " root " << c.root << " in place " << c.in_place
          << " rank " << rank << " of " << ranks.nranks << ", " << ranks.ranks_per_node << " a node, " << ranks.algo;
    }
  });
}

TEST(RandomCalls, AreAllRight) {
  const auto seconds = std::chrono::seconds(from_environment("TEST_SECONDS", 5));
  uint64_t seed = from_environment("TEST_SEED", std::random_device{}());
  std::printf("from TEST_SEED=%llu on\n", static_cast<unsigned long long>(seed));
  int jobs = 0;
  const auto end = std::chrono::steady_clock::now() + seconds;
  for (; std::chrono::steady_clock::now() < end && !testing::Test::HasFailure(); ++jobs) run_job(seed++);
  std::printf("%d jobs of 40 calls\n", jobs);
}

}  // namespace
}  // namespace twohop::test
