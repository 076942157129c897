// Does a job survive the death of a rail at every point of its calls, whatever the algorithm? Ranks as threads over the
// emulated device. TEST_SEED starts the random part where it failed; TEST_POINTS says how many moments are tried of
// each algorithm (default 6; "all": every request).
#include <barrier>
#include <chrono>
#include <cstdlib>
#include <random>

#include "collectives/plan/algorithm.hpp"
#include "pattern.hpp"
#include "thread_ranks.hpp"

namespace twohop::test {
namespace {

using perf::Op;
using perf::Pattern;

/// The words of the emulated device that hold for the next communicators of this process.
void use(const std::string& words) {
  const std::string all =
      "devices=3,domain=failover-" + std::to_string(::getpid()) + (words.empty() ? "" : "," + words);
  ASSERT_EQ(::setenv("SOFTNIC", all.c_str(), 1), 0);
}

struct Outcome {
  std::atomic<uint64_t> wrong{0}, requests{0}, failures{0}, rail_bytes[3] = {};
  /// The rails that carried something.
  std::vector<int> used() const {
    std::vector<int> rails;
    for (int r = 0; r < 3; ++r)
      if (rail_bytes[r] > 0) rails.push_back(r);
    return rails;
  }
};

/// Three calls of each rank, and between them a meeting in which none makes a call: whoever still needs another rank is
/// served meanwhile.
void run_calls(const Ranks& ranks, size_t count, Outcome& outcome) {
  std::barrier meeting(ranks.nranks);
  run_ranks(ranks, [&](int rank, twohopComm_t comm) {
    const perf::TypeInfo& type = perf::types()[0];
    const Pattern pattern(type, Op::kSum, ranks.nranks, count);
    Buffer send(count * type.bytes), recv(count * type.bytes);
    for (int call = 0; call < 3; ++call) {
      pattern.fill_input(rank, send.get(), count);
      EXPECT_OK(twohopAllReduce(send.get(), recv.get(), count, type.type, twohopSum, comm, nullptr), comm);
      outcome.wrong += pattern.count_wrong_result(recv.get(), count);
      meeting.arrive_and_wait();
    }
    twohopCounters_t counters{};
    counters.size = sizeof counters;
    EXPECT_OK(twohopCommGetCounters(comm, &counters), comm);
    outcome.requests += counters.work_requests;
    outcome.failures += counters.rail_failures;
    for (int r = 0; r < 3; ++r) outcome.rail_bytes[r] += counters.rail_bytes[r];
  });
}

class Failover : public testing::TestWithParam<Ranks> {
 protected:
  static void SetUpTestSuite() {
    ::setenv("TWOHOP_NET", "softnic", 1);
    ::setenv("TWOHOP_NCHANNELS", "3", 1);
    ::setenv("TWOHOP_IB_TIMEOUT", "12", 1);
  }
  void TearDown() override { use(""); }
};

uint64_t points(uint64_t requests) {
  const char* wanted = std::getenv("TEST_POINTS");
  if (wanted && std::string(wanted) == "all") return requests;
  return std::min<uint64_t>(requests, wanted ? std::strtoull(wanted, nullptr, 10) : 6);
}

TEST_P(Failover, ARailMayDieAtAnyPointOfACall) {
  constexpr size_t kCount = 6007;
  use("");
  Outcome whole;
  run_calls(GetParam(), kCount, whole);
  ASSERT_EQ(whole.wrong, 0u);
  ASSERT_EQ(whole.failures, 0u);
  const char* given = std::getenv("TEST_SEED");
  const auto seed = given ? static_cast<unsigned>(std::strtoul(given, nullptr, 10)) : std::random_device()();
  SCOPED_TRACE("TEST_SEED=" + std::to_string(seed));
  std::mt19937 rng(seed);
  // Of a rail, if they are even; half of that is there in any case.
  const bool all = points(UINT64_MAX) == UINT64_MAX;
  const std::vector<int> rails = whole.used();
  ASSERT_FALSE(rails.empty());
  const uint64_t requests = whole.requests / rails.size() / (all ? 1 : 2), tries = points(requests);
  uint64_t failures = 0;
  for (uint64_t i = 0; i < tries && !HasFailure(); ++i) {
    const uint64_t n = 1 + (tries == requests ? i : i * requests / tries + rng() % (requests / tries));
    const std::string words = "fail=dev" + std::to_string(rails[rng() % rails.size()]) +
                              ":qp-send:" + std::to_string(n) +
                              (rng() % 2 == 0 ? ":RETRY_EXC_ERR" : ":RETRY_EXC_ERR:done");
    SCOPED_TRACE(words);
    use(words);
    Outcome outcome;
    run_calls(GetParam(), kCount, outcome);
    EXPECT_EQ(outcome.wrong, 0u);
    failures += outcome.failures;
  }
  EXPECT_GT(failures, 0u);
}

std::vector<Ranks> shapes() {
  std::vector<Ranks> all;
  for (const Algorithm& a : algorithms())
    for (const auto& [nranks, per_node] : {std::pair(4, 2), std::pair(3, 1)}) {
      std::vector<int> node_of;
      for (int rank = 0; rank < nranks; ++rank) node_of.push_back(rank / per_node);
      if (a.supports(make_cluster(node_of), Collective::kAllReduce)) all.push_back({nranks, per_node, a.name.data()});
    }
  return all;
}

std::string shape_name(const testing::TestParamInfo<Ranks>& info) {
  std::string name = info.param.algo;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return c == '-'; }, '_');
  return name + "_" + std::to_string(info.param.nranks) + "ranks";
}

INSTANTIATE_TEST_SUITE_P(Algorithms, Failover, testing::ValuesIn(shapes()), shape_name);

}  // namespace
}  // namespace twohop::test
