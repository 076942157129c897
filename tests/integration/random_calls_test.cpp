// Does anything break over many random calls on many random clusters? TEST_SECONDS says for how long (default
// 5), and TEST_SEED where to start; a failure prints the seed of its job.
#include <chrono>
#include <cstdlib>
#include <random>

#include "collectives/plan/algorithm.hpp"
#include "stress/random_call.hpp"
#include "thread_ranks.hpp"

namespace twohop::test {
namespace {

uint64_t from_environment(const char* name, uint64_t standard) {
  const char* text = std::getenv(name);
  return text ? std::strtoull(text, nullptr, 10) : standard;
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
      const CallOutcome outcome = make_call(c, ranks.nranks, rank, comm);
      EXPECT_EQ(outcome.result, twohopSuccess) << why(comm, outcome.result);
      ASSERT_EQ(outcome.wrong, 0u) << "TEST_SEED=" << seed << " call " << i << " " << c.text() << " rank " << rank
                                   << " of " << ranks.nranks << ", " << ranks.ranks_per_node << " a node, "
                                   << ranks.algo;
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
