// The functions that ask a communicator, abort it, and free it.
#include "api/comm_init.hpp"
#include "api/counters.hpp"
#include "api/error.hpp"
#include "api/group.hpp"

namespace twohop {
namespace {

/// Runs body(communicator) if the handle is live and the pointer for the answer is not null.
template <class Answer, class Body>
twohopResult_t query(const char* function, twohopComm_t comm, const char* name, Answer* answer, Body&& body) {
  return guarded(function, comm, [&]() -> Result<> {
    if (auto handle = live(comm); !handle) return handle.error();
    if (!answer) return null_argument(name, "a place for the answer");
    return body(*comm->communicator);
  });
}

}  // namespace

Result<> destroy(twohopComm_t comm) {
  auto handle = LiveComms::of_process().remove(comm);
  if (!handle) return live(comm).error();  // another thread was first
  Turn after_all_calls(handle->tickets);
  handle->communicator.reset();
  return {};
}

}  // namespace twohop

using twohop::Communicator;
using twohop::Result;

twohopResult_t twohopGetVersion(int* version) {
  return twohop::guarded(__func__, nullptr, [&]() -> Result<> {
    if (!version) return twohop::null_argument("version", "a place for the answer");
    *version = TWOHOP_VERSION_CODE;
    return {};
  });
}

twohopResult_t twohopCommUserRank(twohopComm_t comm, int* rank) {
  return twohop::query(__func__, comm, "rank", rank, [&](const Communicator& c) -> Result<> {
    *rank = c.rank();
    return {};
  });
}

twohopResult_t twohopCommCount(twohopComm_t comm, int* nranks) {
  return twohop::query(__func__, comm, "nranks", nranks, [&](const Communicator& c) -> Result<> {
    *nranks = c.nranks();
    return {};
  });
}

twohopResult_t twohopCommShape(twohopComm_t comm, twohopShape_t* shape) {
  return twohop::query(__func__, comm, "shape", shape, [&](const Communicator& c) -> Result<> {
    const twohop::Cluster& cluster = c.cluster();
    const int node = cluster.node_of[c.rank()];
    *shape = {cluster.nnodes(), node, cluster.local_of[c.rank()], cluster.local_size(node)};
    return {};
  });
}

twohopResult_t twohopCommGetAsyncError(twohopComm_t comm, twohopResult_t* async_error) {
  return twohop::query(__func__, comm, "async_error", async_error, [&](const Communicator& c) -> Result<> {
    auto failure = c.failure();
    *async_error = failure ? failure->code : twohopSuccess;
    return {};
  });
}

twohopResult_t twohopCommGetCounters(twohopComm_t comm, twohopCounters_t* counters) {
  return twohop::query(__func__, comm, "counters", counters, [&](const Communicator& c) {
    return twohop::fill_counters(comm->read_counters(), c, counters);
  });
}

twohopResult_t twohopCommAbort(twohopComm_t comm) {
  return twohop::guarded(__func__, comm, [&]() -> Result<> {
    if (auto handle = twohop::live(comm); !handle) return handle.error();
    Communicator& c = *comm->communicator;
    auto error = twohop::make_error(twohopAborted, "communicator{}{} was aborted by rank {}",
                                    c.name().empty() ? "" : " ", c.name(), c.rank());
    error.scope = twohop::Scope::kCommunicator;
    error.rank = c.rank();
    c.fail(error);
    return {};
  });
}

twohopResult_t twohopCommDestroy(twohopComm_t comm) {
  return twohop::guarded(__func__, nullptr, [&]() -> Result<> {
    if (!comm) return {};
    if (auto handle = twohop::live(comm); !handle) return handle.error();
    twohop::Group& group = twohop::Group::of_thread();
    if (!group.open()) return twohop::destroy(comm);
    if (group.destroys(comm))
      return twohop::make_error(twohopInvalidUsage, "comm is destroyed already in the open group");
    group.add_destruction(*comm);
    return {};
  });
}
