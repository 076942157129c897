// One rank of a stress job: communicator after communicator by the launcher's variables, random calls on each, every
// result checked. All ranks draw alike from the seed; rank 0 decides when it is enough. One line at the end:
//
//   stress_worker SEED SECONDS       exit code 0: all right; 1: wrong results; 3: an error of twohop
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "collectives/plan/algorithm.hpp"
#include "stress/random_call.hpp"

namespace twohop::test {
namespace {

constexpr int kCallsPerCommunicator = 40;

struct Totals {
  uint64_t communicators = 0, calls = 0, wrong = 0;
};

int failed(uint64_t seed, const char* what, twohopComm_t comm, twohopResult_t result) {
  fmt::print(stderr, "{}: seed {}: {} ({}): {}\n", getpid(), seed, what, static_cast<int>(result),
             twohopGetLastError(comm));
  return 3;
}

std::string draw_algorithm(std::mt19937_64& rng) {
  std::vector<std::string> choices{"auto", "auto", "^two-hop"};
  for (const Algorithm& a : algorithms()) choices.emplace_back(a.name);
  return choices[rng() % choices.size()];
}

int use_communicator(uint64_t seed, std::mt19937_64& rng, twohopComm_t comm, Totals& totals) {
  int rank = 0, nranks = 0;
  (void)twohopCommUserRank(comm, &rank);
  (void)twohopCommCount(comm, &nranks);
  for (int i = 0; i < kCallsPerCommunicator; ++i) {
    const RandomCall call = RandomCall::draw(rng, nranks);
    const CallOutcome outcome = make_call(call, nranks, rank, comm);
    if (outcome.result != twohopSuccess) return failed(seed, call.text().c_str(), comm, outcome.result);
    ++totals.calls;
    if (outcome.wrong == 0) continue;
    totals.wrong += outcome.wrong;
    fmt::print(stderr, "seed {}: rank {} of {}: call {}: {}: {} wrong elements\n", seed, rank, nranks, i, call.text(),
               outcome.wrong);
    return 1;
  }
  return 0;
}

/// Rank 0 asks the clock for all.
twohopResult_t go_on(twohopComm_t comm, bool mine, bool* all) {
  int32_t flag = mine ? 1 : 0;
  const twohopResult_t result = twohopBroadcast(&flag, &flag, 1, twohopInt32, 0, comm, nullptr);
  *all = flag != 0;
  return result;
}

int run(uint64_t seed, double seconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  Totals totals;
  int code = 0;
  for (bool more = true; more && code == 0; ++seed) {
    std::mt19937_64 rng(seed);
    const std::string algo = draw_algorithm(rng);
    twohopConfig_t config = TWOHOP_CONFIG_INITIALIZER;
    config.algo = algo.c_str();
    config.nchannels = static_cast<int32_t>(rng() % 5);
    twohopComm_t comm = nullptr;
    if (const auto made = twohopCommInitEnv(&comm, &config)) return failed(seed, "init", nullptr, made);
    ++totals.communicators;
    code = use_communicator(seed, rng, comm, totals);
    if (code == 0)
      if (const auto r = go_on(comm, std::chrono::steady_clock::now() < end, &more))
        code = failed(seed, "go on", comm, r);
    const twohopResult_t left = twohopCommDestroy(comm);
    if (left != twohopSuccess && code == 0) code = failed(seed, "destroy", nullptr, left);
  }
  fmt::print("{} communicators, {} calls, {} wrong elements\n", totals.communicators, totals.calls, totals.wrong);
  return code;
}

}  // namespace
}  // namespace twohop::test

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  return twohop::test::run(std::strtoull(argv[1], nullptr, 10), std::strtod(argv[2], nullptr));
}
