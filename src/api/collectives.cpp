// The collectives: from the arguments of the C functions to a checked Call, and to where it runs.
#include "api/enum_value.hpp"
#include "api/error.hpp"
#include "api/group.hpp"
#include "collectives/exec/call.hpp"
#include "collectives/exec/gpu/call_place.hpp"

namespace twohop {
namespace {

Result<> set_type(Call& call, int type) {
  auto checked = checked_type(type);
  if (!checked) return checked.error();
  call.type = *checked;
  return {};
}

/// Sets the operation; the type is set.
Result<> set_operation(Call& call, int op, const twohopComm& comm) {
  if (op >= 0 && op < TWOHOP_NUM_OPS) {
    constexpr Operation kBuiltIn[TWOHOP_NUM_OPS] = {Operation::kSum, Operation::kProd, Operation::kMax, Operation::kMin,
                                                    Operation::kAvg};
    call.op = kBuiltIn[op];
    return {};
  }
  auto made = comm.operations.find(op);
  if (made == comm.operations.end())
    return make_error(twohopInvalidArgument,
                      "op={}: accepted are 0 to {} (twohopRedOp_t) and operations that twohopRedOpCreatePreMulSum made "
                      "for this communicator and that are not destroyed",
                      op, TWOHOP_NUM_OPS - 1);
  if (made->second.type != call.type)
    return make_error(twohopInvalidArgument, "op={} was made for {}, and the call's type is {}: make one for that type",
                      op, type_name(made->second.type), type_name(call.type));
  call.op = Operation::kPreMulSum;
  call.pre_multiplier = made->second.scalar;
  return {};
}

Result<> run_on_stream(twohopComm& comm, const Call& call, twohopStream& stream) {
  Bundles bundle(1);
  bundle.front().add(comm, call);
  bundle.front().prepare();
  std::lock_guard lock(issue_mutex());
  bundle.front().issue();
  stream.push(bundle);
  return {};
}

Result<> check_not_destroyed(const Group& group, twohopComm_t comm) {
  if (!group.destroys(comm)) return {};
  return make_error(twohopInvalidUsage, "comm was destroyed earlier in the open group");
}

StreamKind kind_of(twohopStream_t stream) {
  if (!stream) return StreamKind::kNull;
  return LiveStreams::of_process().contains(stream) ? StreamKind::kHostStream : StreamKind::kOther;
}

/// Runs, hands over or collects the call; its type, operation and handle are right.
Result<> submit(const Call& call, twohopComm_t comm, twohopStream_t stream) {
  Communicator& c = *comm->communicator;
  if (auto ok = check_call(call, c.rank(), c.nranks()); !ok) return ok;
  const StreamKind kind = kind_of(stream);
  const auto place = place_of(call, kind, c);
  if (!place) return place.error();
  const bool on_gpu = *place == CallPlace::kGpu;
  if (!on_gpu && stream)
    if (auto handle = live(stream); !handle) return handle.error();
  Group& group = Group::of_thread();
  if (group.open()) {
    if (auto ok = check_not_destroyed(group, comm); !ok) return ok;
    if (on_gpu)
      group.add_on_gpu(*comm, call, stream);
    else
      group.add(*comm, call, stream);
    return {};
  }
  c.count_made(on_gpu);
  if (on_gpu) return c.launch_on_gpu(call, stream);
  return stream ? run_on_stream(*comm, call, *stream) : run_blocking(*comm, call);
}

/// complete(call) sets what depends on the handle; it is called with a live one.
template <class Complete>
twohopResult_t collective(const char* function, Call& call, twohopComm_t comm, twohopStream_t stream,
                          Complete&& complete) {
  return guarded(function, comm, [&]() -> Result<> {
    auto made = [&]() -> Result<> {
      if (auto handle = live_and_healthy(comm); !handle) return handle.error();
      if (auto ok = complete(call); !ok) return ok;
      return submit(call, comm, stream);
    }();
    if (!made && Group::of_thread().open()) Group::of_thread().add_error(made.error());
    return made;
  });
}

Call call_of(Collective kind, const void* send, void* recv, uint64_t count) {
  Call call;
  call.collective = kind;
  call.send = send;
  call.recv = recv;
  call.count = count;
  return call;
}

twohopResult_t reduction(const char* function, Call&& call, const twohopDataType_t& type, const twohopRedOp_t& op,
                         twohopComm_t comm, twohopStream_t stream) {
  return collective(function, call, comm, stream, [&](Call& c) -> Result<> {
    if (auto ok = set_type(c, raw_value(type)); !ok) return ok;
    return set_operation(c, raw_value(op), *comm);
  });
}

}  // namespace
}  // namespace twohop

using twohop::Call;
using twohop::call_of;
using twohop::Collective;
using twohop::raw_value;

twohopResult_t twohopAllReduce(const void* send, void* recv, size_t count, twohopDataType_t type, twohopRedOp_t op,
                               twohopComm_t comm, twohopStream_t stream) {
  return twohop::reduction(__func__, call_of(Collective::kAllReduce, send, recv, count), type, op, comm, stream);
}

twohopResult_t twohopReduceScatter(const void* send, void* recv, size_t recvcount, twohopDataType_t type,
                                   twohopRedOp_t op, twohopComm_t comm, twohopStream_t stream) {
  return twohop::reduction(__func__, call_of(Collective::kReduceScatter, send, recv, recvcount), type, op, comm,
                           stream);
}

twohopResult_t twohopAllGather(const void* send, void* recv, size_t sendcount, twohopDataType_t type, twohopComm_t comm,
                               twohopStream_t stream) {
  Call gather = call_of(Collective::kAllGather, send, recv, sendcount);
  return twohop::collective(__func__, gather, comm, stream,
                            [&](Call& call) { return twohop::set_type(call, raw_value(type)); });
}

twohopResult_t twohopBroadcast(const void* send, void* recv, size_t count, twohopDataType_t type, int root,
                               twohopComm_t comm, twohopStream_t stream) {
  Call broadcast = call_of(Collective::kBroadcast, send, recv, count);
  broadcast.root = root;
  return twohop::collective(__func__, broadcast, comm, stream,
                            [&](Call& call) { return twohop::set_type(call, raw_value(type)); });
}

twohopResult_t twohopBarrier(twohopComm_t comm, twohopStream_t stream) {
  Call barrier;
  barrier.barrier = true;
  return twohop::collective(__func__, barrier, comm, stream, [](Call&) { return twohop::Result<>(); });
}
