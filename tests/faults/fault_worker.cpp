// One rank of a job in which something goes wrong; faults.py starts it and judges. Tells what it sees in lines of JSON:
// {"event": "ended", "result": 0 or the error, "message": ..., "wrong": ..., "t": ...}, then {"event": "left", "fds":
// [...], "mapped": ...}: what is still open once its communicator is destroyed.
//
//   fault_worker FAULT MOMENT VICTIM SEED
//   FAULT   none, kill, stop, abort, exit, slow: what VICTIM does
//   MOMENT  init, first-call, mid-call, between-calls, destroy: when (init: before it joins)
#include <fmt/format.h>
#include <signal.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <string>
#include <thread>

#include "pattern.hpp"
#include "twohop/twohop.h"
#include "worker_events.hpp"

namespace twohop::test {
namespace {

using nlohmann::json;

struct Plan {
  std::string fault, moment;
  int victim = 0;
  uint64_t seed = 1;
};

/// What the library may have open, by kind: numbers of sockets and pipes differ from run to run.
std::multiset<std::string> open_files() {
  std::multiset<std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const std::string target = std::filesystem::read_symlink(entry.path(), gone).string();
    if (!gone) found.insert(target.substr(0, target.find('[')));
  }
  return found;
}

size_t mapped_memfds() {
  size_t count = 0;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) count += line.find("/memfd:") != std::string::npos;
  return count;
}

void suffer(const std::string& fault, twohopComm_t comm) {
  tell("fault");
  if (fault == "kill") ::kill(getpid(), SIGKILL);
  if (fault == "stop") ::kill(getpid(), SIGSTOP);
  if (fault == "exit") std::exit(0);
  if (fault == "abort") (void)twohopCommAbort(comm);
  if (fault == "slow") usleep(300'000);  // being late is what is tested
}

/// Calls until one fails or all are done; with the last result.
twohopResult_t calls(twohopComm_t comm, const Plan& plan, bool is_victim) {
  const bool mid_call = plan.moment == "mid-call";
  const size_t count = mid_call ? 300'000 : 5000;
  const perf::Pattern pattern(perf::type_info(twohopFloat32), perf::Op::kSum, nranks, count);
  std::vector<float> send(count), recv(count);
  pattern.fill_input(rank, send.data(), count);
  std::thread saboteur;
  uint64_t wrong = 0;
  twohopResult_t result = twohopSuccess;
  for (int i = 0; result == twohopSuccess && i < (mid_call ? 60 : 6); ++i) {
    if (is_victim && i == 0 && plan.moment == "first-call") suffer(plan.fault, comm);
    if (is_victim && i == 3 && plan.moment == "between-calls") suffer(plan.fault, comm);
    if (is_victim && i == 3 && mid_call)
      saboteur = std::thread([&plan, comm] {
        usleep(static_cast<useconds_t>(plan.seed * 7919 % 20'000));  // a point of the calls that the seed chooses
        suffer(plan.fault, comm);
      });
    result = twohopAllReduce(send.data(), recv.data(), count, twohopFloat32, twohopSum, comm, nullptr);
    if (result == twohopSuccess) wrong += pattern.count_wrong_result(recv.data(), count);
  }
  if (saboteur.joinable()) saboteur.join();
  tell("ended", {{"result", result}, {"message", result ? twohopGetLastError(comm) : ""}, {"wrong", wrong}});
  return result;
}

/// Makes what the library makes once per process, so that only what a communicator leaves is counted.
bool warm_up() {
  twohopUniqueId id;
  twohopComm_t comm = nullptr;
  return twohopGetUniqueId(&id) == twohopSuccess && twohopCommInitRank(&comm, 1, id, 0) == twohopSuccess &&
         twohopCommDestroy(comm) == twohopSuccess;
}

int run(const Plan& plan) {
  rank = std::atoi(std::getenv("RANK"));
  nranks = std::atoi(std::getenv("WORLD_SIZE"));
  const bool is_victim = rank == plan.victim && plan.fault != "none";
  const bool cold = std::getenv("FAULT_CALL") != nullptr || std::getenv("FAULT_COLD") != nullptr;
  if (!cold && !warm_up()) return 2;
  const auto files = open_files();
  if (is_victim && plan.moment == "init") suffer(plan.fault, nullptr);
  tell("starting");
  twohopComm_t comm = nullptr;
  if (const twohopResult_t result = twohopCommInitEnv(&comm, nullptr); result != twohopSuccess) {
    tell("ended", {{"result", result}, {"message", twohopGetLastError(nullptr)}, {"wrong", 0}, {"during", "init"}});
  } else {
    tell("joined");
    (void)calls(comm, plan, is_victim);
    if (is_victim && plan.moment == "destroy") suffer(plan.fault, comm);
    const twohopResult_t destroyed = twohopCommDestroy(comm);
    tell("destroyed", {{"result", destroyed}});
  }
  std::multiset<std::string> left;
  // A rank relays for the others until they have left too, and a stopped one never does.
  for (int wait_ms = 0; wait_ms < 5000; wait_ms += 20) {
    const auto after = open_files();
    left.clear();
    std::set_difference(after.begin(), after.end(), files.begin(), files.end(), std::inserter(left, left.end()));
    if (left.size() <= (rank == 0 ? 2 : 0)) break;  // the port of the rendezvous stays
    usleep(20'000);
  }
  tell("left", {{"fds", left}, {"mapped", mapped_memfds()}});
  return 0;
}

}  // namespace
}  // namespace twohop::test

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  return twohop::test::run({argv[1], argv[2], std::atoi(argv[3]), std::strtoull(argv[4], nullptr, 10)});
}
