// The functions that make communicators: unique id, init by rank, by configuration, by the launcher's variables.
#include "api/comm_init.hpp"

#include <cstdlib>
#include <thread>

#include "api/config.hpp"
#include "api/error.hpp"
#include "api/group.hpp"
#include "api/internal.h"
#include "base/options.hpp"
#include "bootstrap/unique_id.hpp"

namespace twohop {
namespace {

/// What every init checks that does not depend on how the ranks find each other.
Result<CommConfig> check_init(twohopComm_t* comm, const twohopConfig_t* config) {
  if (!comm) return null_argument("comm", "a place for the handle");
  *comm = nullptr;
  if (LiveComms::of_process().forked())
    return make_error(
        twohopInvalidUsage,
        "this process was made by fork() from one that had communicators: their threads are not here. Fork "
        "before the first twohopCommInit*, or call exec");
  if (!options()) return options().error();
  return resolve_config(config, *options());
}

Result<> check_place(int nranks, int rank) {
  if (nranks < 1) return make_error(twohopInvalidArgument, "nranks={}: a communicator has 1 rank or more", nranks);
  if (rank < 0 || rank >= nranks)
    return make_error(twohopInvalidArgument, "rank={}: accepted are 0 to {}, since nranks={}", rank, nranks - 1,
                      nranks);
  return {};
}

Result<> join_now_or_in_group(JoinRequest request) {
  request.gpu = Communicator::gpu_of_thread(*options());
  if (!Group::of_thread().open()) return join(request);
  Group::of_thread().add(std::move(request));
  return {};
}

Result<> init_rank(twohopComm_t* comm, int nranks, const twohopUniqueId& id, int rank, const twohopConfig_t* config) {
  auto resolved = check_init(comm, config);
  if (!resolved) return resolved.error();
  if (auto ok = check_place(nranks, rank); !ok) return ok;
  if (auto content = decode(id); !content) return content.error();
  return join_now_or_in_group({comm, id, nranks, rank, std::move(*resolved)});
}

Result<> init_env(twohopComm_t* comm, const twohopConfig_t* config) {
  auto resolved = check_init(comm, config);
  if (!resolved) return resolved.error();
  auto launcher = launcher_env();
  if (!launcher) return launcher.error();
  if (auto ok = check_place(launcher->world_size, launcher->rank); !ok) return ok;
  auto id = make_env_unique_id(*launcher, *options());
  if (!id) return id.error();
  return join_now_or_in_group({comm, *id, launcher->world_size, launcher->rank, std::move(*resolved)});
}

/// An error of an init ends the group that is open.
template <class Init>
twohopResult_t guarded_init(const char* function, Init&& init) {
  return guarded(function, nullptr, [&]() -> Result<> {
    Result<> result = init();
    if (!result && Group::of_thread().open()) Group::of_thread().add_error(result.error());
    return result;
  });
}

Result<> join_catching(const JoinRequest& request) {
  try {
    return join(request);
  } catch (...) {
    return error_of_exception();
  }
}

}  // namespace

namespace {

/// A program may end without destroying: its communicators say goodbye, so that ranks that are still in the last calls
/// finish them. One that is in a call of another thread is left as it is.
void leave_at_exit() {
  for (const auto& comm : LiveComms::of_process().all()) {
    if (!comm->tickets.idle() || comm->communicator->failure()) continue;
    try {
      (void)!destroy(comm.get());
    } catch (...) {  // nobody is left to tell
    }
  }
}

}  // namespace

Result<> join(const JoinRequest& r) {
  [[maybe_unused]] static const int registered = std::atexit(leave_at_exit);
  auto communicator = Communicator::init(r.id, r.nranks, r.rank, r.config, *options(), r.gpu);
  if (!communicator) return communicator.error();
  *r.comm = LiveComms::of_process().add(std::make_shared<twohopComm>(std::move(*communicator)));
  return {};
}

Result<> join_all(const std::vector<JoinRequest>& requests) {
  std::vector<Result<>> results(requests.size());
  std::vector<std::thread> threads;
  threads.reserve(requests.size());
  for (size_t i = 0; i + 1 < requests.size(); ++i) {
    try {
      threads.emplace_back([&, i] { results[i] = join_catching(requests[i]); });
    } catch (...) {  // no more threads: the ranks that wait for this one are told by their timeout
      results[i] = error_of_exception();
    }
  }
  if (!requests.empty()) results.back() = join_catching(requests.back());
  for (std::thread& t : threads) t.join();
  for (Result<>& r : results)
    if (!r) return std::move(r);
  return {};
}

}  // namespace twohop

twohopResult_t twohopGetUniqueId(twohopUniqueId* id) {
  return twohop::guarded(__func__, nullptr, [&]() -> twohop::Result<> {
    if (!id) return twohop::null_argument("id", "a place for the id");
    if (!twohop::options()) return twohop::options().error();
    auto made = twohop::make_unique_id(*twohop::options());
    if (!made) return made.error();
    *id = *made;
    return {};
  });
}

twohopResult_t twohopCommInitRank(twohopComm_t* comm, int nranks, twohopUniqueId id, int rank) {
  return twohop::guarded_init(__func__, [&] { return twohop::init_rank(comm, nranks, id, rank, nullptr); });
}

twohopResult_t twohopCommInitRankConfig(twohopComm_t* comm, int nranks, twohopUniqueId id, int rank,
                                        const twohopConfig_t* config) {
  return twohop::guarded_init(__func__, [&] { return twohop::init_rank(comm, nranks, id, rank, config); });
}

twohopResult_t twohopCommInitEnv(twohopComm_t* comm, const twohopConfig_t* config) {
  return twohop::guarded_init(__func__, [&] { return twohop::init_env(comm, config); });
}

twohopResult_t twohopCheckInitInternal(const char* function, twohopComm_t* comm, const twohopConfig_t* config) {
  return twohop::guarded_init(function, [&]() -> twohop::Result<> {
    auto resolved = twohop::check_init(comm, config);
    return resolved ? twohop::Result<>() : resolved.error();
  });
}
