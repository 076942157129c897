// One rank of a job that jobs.py starts by RANK and WORLD_SIZE and then disturbs. Tells what it does and sees in lines
// of JSON on stdout: {"event": ..., "rank": ..., "t": CLOCK_MONOTONIC seconds, ...}.
//
//   rank_worker SCENARIO [ARGUMENT]     scenarios: the table at the end
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "allocation_counter.hpp"
#include "pattern.hpp"
#include "twohop/twohop.h"
#include "worker_events.hpp"

namespace twohop::test {
namespace {

using nlohmann::json;

/// Tells how a call ended; true when it succeeded.
bool ended(twohopResult_t result, twohopComm_t comm) {
  if (result != twohopSuccess) tell("error", {{"result", result}, {"message", twohopGetLastError(comm)}});
  return result == twohopSuccess;
}

/// A buffer of floats with this rank's input, and the result it must lead to.
struct Work {
  explicit Work(size_t n) : pattern(perf::type_info(twohopFloat32), perf::Op::kSum, nranks, n), send(n), recv(n) {
    pattern.fill_input(rank, send.data(), n);
  }
  twohopResult_t reduce(twohopComm_t comm) {
    return twohopAllReduce(send.data(), recv.data(), send.size(), twohopFloat32, twohopSum, comm, nullptr);
  }
  uint64_t wrong() const { return pattern.count_wrong_result(recv.data(), recv.size()); }

  perf::Pattern pattern;
  std::vector<float> send, recv;
};

void shape(twohopComm_t comm, const std::string&) {
  twohopShape_t s{};
  (void)twohopCommShape(comm, &s);
  tell("shape", {{"nnodes", s.nnodes}, {"node", s.node}, {"local_rank", s.local_rank}, {"local_size", s.local_size}});
  for (size_t count : {size_t{0}, size_t{1}, size_t{1009}, size_t{300007}}) {
    Work work(count);
    if (!ended(work.reduce(comm), comm)) return;
    tell("result", {{"count", count}, {"wrong", work.wrong()}});
  }
}

/// All-reduces for ever: what a rank is killed, stopped or aborted in.
void loop(twohopComm_t comm, const std::string& count) {
  Work work(std::stoul(count));
  for (long calls = 0;; ++calls) {
    if (!ended(work.reduce(comm), comm)) break;
    if (calls == 2) tell("running");
  }
  tell("refused", {{"result", work.reduce(comm)}});
}

/// Makes no call after the first: failures must be noticed all the same.
void between_calls(twohopComm_t comm, const std::string&) {
  Work work(1000);
  if (!ended(work.reduce(comm), comm)) return;
  tell("running");
  for (twohopResult_t state = twohopSuccess; state == twohopSuccess;) {
    (void)twohopCommGetAsyncError(comm, &state);
    if (state != twohopSuccess) ended(state, comm);
    std::this_thread::yield();
    usleep(1000);  // a poll period, not a wait for a state: async error has no other notice
  }
}

/// Rank 1 calls something else than the others.
void mismatch(twohopComm_t comm, const std::string& what) {
  std::vector<float> in(1000, 1), out(1000, -7);
  bool odd = rank == 1;
  size_t count = odd && what == "count" ? 999 : odd && what == "zero" ? 0 : 1000;
  auto type = odd && what == "type" ? twohopInt32 : twohopFloat32;
  auto op = odd && what == "op" ? twohopMax : twohopSum;
  twohopResult_t result = odd && what == "collective"
                              ? twohopAllGather(in.data(), out.data(), 1, type, comm, nullptr)
                              : twohopAllReduce(in.data(), out.data(), count, type, op, comm, nullptr);
  if (ended(result, comm)) tell("result", {{"out", out[0]}});
}

/// Ends the process right after its last call, without destroying; `status` is its exit code.
void leave(twohopComm_t comm, const std::string&) {
  Work work(100000);
  for (int i = 0; i < 20; ++i)
    if (!ended(work.reduce(comm), comm)) return;
  tell("result", {{"wrong", work.wrong()}});
  std::exit(0);
}

/// Rank 0 forks a child that uses and destroys what it inherited, then ends; then all ranks go on.
void fork_child(twohopComm_t comm, const std::string&) {
  Work work(1000);
  if (!ended(work.reduce(comm), comm)) return;
  if (rank == 0) {
    if (const pid_t child = fork(); child == 0) {
      const twohopResult_t used = work.reduce(comm), destroyed = twohopCommDestroy(comm);
      twohopComm_t another = nullptr;
      const twohopResult_t made = twohopCommInitEnv(&another, nullptr);
      tell("child", {{"used", used}, {"destroyed", destroyed}, {"made", made}});
      std::exit(0);  // with everything that runs at exit
    } else {
      waitpid(child, nullptr, 0);
    }
  }
  for (int i = 0; i < 10; ++i)
    if (!ended(work.reduce(comm), comm)) return;
  tell("result", {{"wrong", work.wrong()}});
}

double cpu_seconds() {
  rusage u{};
  getrusage(RUSAGE_SELF, &u);
  auto seconds = [](timeval t) { return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6; };
  return seconds(u.ru_utime) + seconds(u.ru_stime);
}

/// Rank 0 comes late by some seconds; the others tell how much CPU they used while they waited in the call.
void late(twohopComm_t comm, const std::string& seconds) {
  Work work(1000);
  if (!ended(work.reduce(comm), comm)) return;
  if (rank == 0) usleep(static_cast<useconds_t>(std::stod(seconds) * 1e6));  // being late is what is tested
  double cpu = cpu_seconds(), start = now();
  if (ended(work.reduce(comm), comm)) tell("waited", {{"cpu", cpu_seconds() - cpu}, {"wall", now() - start}});
}

/// What a call costs after warm-up in page faults and allocations, over 1000 calls.
void steady(twohopComm_t comm, const std::string& count) {
  Work work(std::stoul(count));
  auto calls = [&](int n) {
    for (int i = 0; i < n; ++i)
      if (!ended(work.reduce(comm), comm)) return false;
    return true;
  };
  if (!calls(100)) return;
  rusage before{}, after{};
  getrusage(RUSAGE_SELF, &before);
  auto allocated = allocations();
  if (!calls(1000)) return;
  auto allocated_after = allocations();
  getrusage(RUSAGE_SELF, &after);
  json more{{"faults", after.ru_minflt - before.ru_minflt}};
  if (allocated) more["allocations"] = *allocated_after - *allocated;
  tell("steady", more);
}

/// Rank 0 aborts from another thread while all ranks are in calls; the others have no other way out.
void abort_from_thread(twohopComm_t comm, const std::string& count) {
  Work work(std::stoul(count));
  if (!ended(work.reduce(comm), comm)) return;
  std::thread killer;
  if (rank == 0) {
    killer = std::thread([comm] {
      tell("aborting");
      (void)twohopCommAbort(comm);
    });
  }
  while (ended(work.reduce(comm), comm)) {
  }
  if (killer.joinable()) killer.join();
}

int run(const std::string& scenario, const std::string& argument) {
  const std::map<std::string, std::function<void(twohopComm_t, const std::string&)>> scenarios{
      {"shape", shape},    {"loop", loop},     {"between-calls", between_calls}, {"mismatch", mismatch},
      {"late", late},      {"steady", steady}, {"abort", abort_from_thread},     {"leave", leave},
      {"fork", fork_child}};
  auto found = scenarios.find(scenario);
  if (found == scenarios.end()) {
    fmt::print(stderr, "rank_worker: no scenario '{}'\n", scenario);
    return 2;
  }
  twohopComm_t comm = nullptr;
  tell("starting");
  if (!ended(twohopCommInitEnv(&comm, nullptr), nullptr)) return 3;
  (void)twohopCommUserRank(comm, &rank);
  (void)twohopCommCount(comm, &nranks);
  tell("joined", {{"pid", getpid()}});
  found->second(comm, argument);
  bool destroyed = ended(twohopCommDestroy(comm), nullptr);
  tell("done");
  return destroyed ? 0 : 3;
}

}  // namespace
}  // namespace twohop::test

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  return twohop::test::run(argv[1], argc > 2 ? argv[2] : "1000");
}
