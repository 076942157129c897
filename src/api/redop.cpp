// Reductions of the user's own: made and destroyed. A call takes a copy, so an operation may go while calls are
// pending.
#include <cstring>

#include "api/comm_handle.hpp"
#include "api/enum_value.hpp"
#include "api/error.hpp"

namespace twohop {
namespace {

Result<> create(twohopRedOp_t* op, const void* scalar, int type, twohopComm_t comm) {
  if (auto handle = live_and_healthy(comm); !handle) return handle.error();
  if (!op) return null_argument("op", "a place for the operation");
  if (!scalar) return null_argument("scalar", "one element of the type");
  auto checked = checked_type(type);
  if (!checked) return checked.error();
  if (comm->next_operation == twohopMaxRedOp)
    return make_error(twohopInvalidUsage, "this communicator has made all {} operations it can", twohopMaxRedOp);
  const int number = comm->next_operation++;
  comm->operations[number] = {*checked, load_scalar(scalar, *checked)};
  std::memcpy(op, &number, sizeof number);
  return {};
}

Result<> destroy(int op, twohopComm_t comm) {
  if (auto handle = live(comm); !handle) return handle.error();
  if (op >= 0 && op < TWOHOP_NUM_OPS)
    return make_error(twohopInvalidArgument,
                      "op={} is built in: only operations of twohopRedOpCreatePreMulSum are "
                      "destroyed",
                      op);
  if (comm->operations.erase(op) == 0)
    return make_error(twohopInvalidArgument, "op={} is no operation of this communicator, or was destroyed already",
                      op);
  return {};
}

}  // namespace
}  // namespace twohop

twohopResult_t twohopRedOpCreatePreMulSum(twohopRedOp_t* op, const void* scalar, twohopDataType_t type,
                                          twohopComm_t comm) {
  return twohop::guarded(__func__, comm, [&] { return twohop::create(op, scalar, twohop::raw_value(type), comm); });
}

twohopResult_t twohopRedOpDestroy(twohopRedOp_t op, twohopComm_t comm) {
  return twohop::guarded(__func__, comm, [&] { return twohop::destroy(twohop::raw_value(op), comm); });
}
