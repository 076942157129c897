// How long does it take N ranks to join? From the first entry of twohopCommInitEnv to the last exit, by the host's
// clock: all ranks on one machine.
//
//   scripts/launch 64 -- build/release/perf/start_up_perf      TWOHOP_DEBUG=INFO has the phases of each rank
#include <twohop/twohop.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

double now_ms() {
  using namespace std::chrono;
  return duration<double, std::milli>(system_clock::now().time_since_epoch()).count();
}

void require(twohopResult_t result) {
  if (result == twohopSuccess) return;
  std::fprintf(stderr, "start_up_perf: %s\n", twohopGetLastError(nullptr));
  std::exit(1);
}

void print(const std::vector<double>& times) {
  double first = times[0], last = times[1], sum = 0, entered = times[0];
  for (size_t i = 0; i < times.size(); i += 2) {
    first = std::min(first, times[i]);
    entered = std::max(entered, times[i]);
    last = std::max(last, times[i + 1]);
    sum += times[i + 1] - times[i];
  }
  std::printf(
      "%zu ranks: %.0f ms from the first entry to the last exit; the last entered after %.0f ms; mean %.0f ms\n",
      times.size() / 2, last - first, entered - first, sum / static_cast<double>(times.size() / 2));
}

}  // namespace

int main() {
  double own[2] = {now_ms(), 0};
  twohopComm_t comm = nullptr;
  require(twohopCommInitEnv(&comm, nullptr));
  own[1] = now_ms();
  int rank = 0, ranks = 0;
  require(twohopCommUserRank(comm, &rank));
  require(twohopCommCount(comm, &ranks));
  std::vector<double> all(2 * static_cast<size_t>(ranks));
  require(twohopAllGather(own, all.data(), 2, twohopFloat64, comm, nullptr));
  if (rank == 0) print(all);
  require(twohopCommDestroy(comm));
  return 0;
}
