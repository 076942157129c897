// Are a call's arguments acceptable, and how is a call named on the wire so that ranks can compare theirs?
#include "collectives/exec/call.hpp"

#include <iterator>

namespace twohop {
namespace {

// Signature, from the top bit: kind 3 | type 4 | detail 17 | count 40. Kind is 1 + Collective, or 5 for a barrier, so
// that no call's signature is 0. Detail is the operation of a reduction, the root of a broadcast.
constexpr int kKindShift = 61, kTypeShift = 57, kDetailShift = 40;
constexpr uint64_t kMaxCount = (uint64_t{1} << kDetailShift) - 1;
constexpr uint64_t kMaxDetail = (uint64_t{1} << (kTypeShift - kDetailShift)) - 1;
constexpr uint64_t kBarrierKind = 5;

bool reduces(Collective c) {
  return c == Collective::kAllReduce || c == Collective::kReduceScatter;
}

/// The count as the API's functions name it.
const char* count_name(Collective c) {
  if (c == Collective::kReduceScatter) return "recvcount";
  return c == Collective::kAllGather ? "sendcount" : "count";
}

/// One buffer of a call, in bytes.
struct Buffer {
  const char* name;
  uintptr_t begin = 0;
  uint64_t bytes = 0;
  uintptr_t end() const { return begin + bytes; }
};

Result<> check_sizes(const Call& call, int nranks) {
  if (call.count > kMaxCount)
    return make_error(twohopInvalidArgument, "{}={}: at most {} elements fit into one call; split it",
                      count_name(call.collective), call.count, kMaxCount);
  uint64_t bytes = call.count * type_size(call.type);  // no overflow: 2^40 elements of 8 bytes
  if (call.collective == Collective::kAllReduce || call.collective == Collective::kBroadcast) return {};
  if (__builtin_mul_overflow(bytes, static_cast<uint64_t>(nranks), &bytes))
    return make_error(twohopInvalidArgument, "{}={} of {} on {} ranks: the blocks of all ranks overflow 2^64 bytes",
                      count_name(call.collective), call.count, type_name(call.type), nranks);
  return {};
}

Result<> check_buffer(const Buffer& b, const Call& call) {
  const size_t align = type_size(call.type);
  if (b.begin == 0)
    return make_error(twohopInvalidArgument, "{} is NULL with {}={}: give {} bytes of memory", b.name,
                      count_name(call.collective), call.count, b.bytes);
  if ((b.begin & (align - 1)) != 0)  // a power of two: no division on the way of every call
    return make_error(twohopInvalidArgument, "{}={:#x} is not aligned: a buffer of {} starts at a multiple of {} bytes",
                      b.name, b.begin, type_name(call.type), align);
  if (b.end() < b.begin)
    return make_error(twohopInvalidArgument, "{}={:#x} with {}={}: its {} bytes run past the end of memory", b.name,
                      b.begin, count_name(call.collective), call.count, b.bytes);
  return {};
}

/// Where recv lies when the call is in place, relative to send (reduce-scatter), or send relative to recv (all-gather).
bool in_place(const Call& call, const Buffer& send, const Buffer& recv, int rank) {
  const uint64_t own_block = static_cast<uint64_t>(rank) * call.count * type_size(call.type);
  switch (call.collective) {
    case Collective::kReduceScatter:
      return recv.begin == send.begin + own_block;
    case Collective::kAllGather:
      return send.begin == recv.begin + own_block;
    default:
      return send.begin == recv.begin;
  }
}

const char* in_place_rule(Collective c) {
  if (c == Collective::kReduceScatter) return "recv == send + rank * recvcount";
  return c == Collective::kAllGather ? "send == recv + rank * sendcount" : "send == recv";
}

Result<> check_overlap(const Call& call, const Buffer& send, const Buffer& recv, int rank) {
  if (send.end() <= recv.begin || recv.end() <= send.begin || in_place(call, send, recv, rank)) return {};
  return make_error(twohopInvalidArgument,
                    "send={:#x} ({} bytes) and recv={:#x} ({} bytes) overlap on rank {}: give disjoint buffers, or "
                    "exactly in place: {}",
                    send.begin, send.bytes, recv.begin, recv.bytes, rank, in_place_rule(call.collective));
}

Result<> check_buffers(const Call& call, int rank, int nranks) {
  const uint64_t block = call.count * type_size(call.type), all = block * static_cast<uint64_t>(nranks);
  const Buffer send{"send", reinterpret_cast<uintptr_t>(call.send),
                    call.collective == Collective::kReduceScatter ? all : block};
  const Buffer recv{"recv", reinterpret_cast<uintptr_t>(call.recv),
                    call.collective == Collective::kAllGather ? all : block};
  if (auto ok = check_buffer(recv, call); !ok) return ok;
  if (call.collective == Collective::kBroadcast && rank != call.root) return {};  // its send is not looked at
  if (auto ok = check_buffer(send, call); !ok) return ok;
  return check_overlap(call, send, recv, rank);
}

Result<> check_root(const Call& call, int nranks) {
  if (call.root < 0 || call.root >= nranks)
    return make_error(twohopInvalidArgument, "root={}: accepted are the ranks 0 to {}", call.root, nranks - 1);
  if (static_cast<uint64_t>(call.root) > kMaxDetail)
    return make_error(twohopInvalidArgument, "root={}: roots above {} are not supported", call.root, kMaxDetail);
  return {};
}

const char* kind_name(uint64_t kind) {
  static constexpr const char* kNames[] = {"no call",   "AllReduce", "ReduceScatter", "AllGather",
                                           "Broadcast", "Barrier",   "unknown call",  "unknown call"};
  return kNames[kind & 7];
}

const char* operation_name(uint64_t op) {
  static constexpr const char* kNames[] = {"sum", "prod", "max", "min", "avg", "premulsum"};
  return op < std::size(kNames) ? kNames[op] : "unknown";
}

}  // namespace

Result<> check_call(const Call& call, int rank, int nranks) {
  if (call.barrier) return {};
  if (static_cast<unsigned>(call.type) >= TWOHOP_NUM_DATATYPES)
    return make_error(twohopInvalidArgument, "type={}: accepted are the twohopDataType_t values 0 to {}",
                      static_cast<unsigned>(call.type), TWOHOP_NUM_DATATYPES - 1);
  if (call.collective == Collective::kBroadcast)
    if (auto ok = check_root(call, nranks); !ok) return ok;
  if (auto ok = check_sizes(call, nranks); !ok) return ok;
  return call.count == 0 ? Result<>() : check_buffers(call, rank, nranks);
}

uint64_t signature(const Call& call) {
  if (call.barrier) return kBarrierKind << kKindShift;
  uint64_t detail = 0;
  if (reduces(call.collective)) detail = static_cast<uint64_t>(call.op);
  if (call.collective == Collective::kBroadcast) detail = static_cast<uint64_t>(call.root);
  return (1 + static_cast<uint64_t>(call.collective)) << kKindShift | static_cast<uint64_t>(call.type) << kTypeShift |
         (detail & kMaxDetail) << kDetailShift | (call.count & kMaxCount);
}

std::string describe_signature(uint64_t signature) {
  const uint64_t kind = signature >> kKindShift, type = signature >> kTypeShift & 15;
  const uint64_t detail = signature >> kDetailShift & kMaxDetail, count = signature & kMaxCount;
  if (kind == 0 || kind >= kBarrierKind) return kind_name(kind);
  const auto collective = static_cast<Collective>(kind - 1);
  const char* type_text = type < TWOHOP_NUM_DATATYPES ? type_name(static_cast<twohopDataType_t>(type)) : "unknown";
  std::string text = fmt::format("{}({}={}, type={}", kind_name(kind), count_name(collective), count, type_text);
  if (reduces(collective)) text += fmt::format(", op={}", operation_name(detail));
  if (collective == Collective::kBroadcast) text += fmt::format(", root={}", detail);
  return text + ")";
}

MathOp math_op(Operation op) {
  switch (op) {
    case Operation::kProd:
      return MathOp::kProd;
    case Operation::kMax:
      return MathOp::kMax;
    case Operation::kMin:
      return MathOp::kMin;
    default:
      return MathOp::kSum;
  }
}

bool scales_contributions(const Call& call) {
  const bool reduces = call.collective == Collective::kAllReduce || call.collective == Collective::kReduceScatter;
  return reduces && (call.op == Operation::kPreMulSum || (call.op == Operation::kAvg && is_floating(call.type)));
}

Scalar own_scale(const Call& call, int nranks) {
  if (call.op == Operation::kPreMulSum) return call.pre_multiplier;
  if (call.op == Operation::kAvg) return reciprocal(call.type, static_cast<uint64_t>(nranks));
  return one(call.type);
}

uint64_t divisor_of(const Call& call, int nranks) {
  return call.op == Operation::kAvg && !is_floating(call.type) ? static_cast<uint64_t>(nranks) : 1;
}

}  // namespace twohop
