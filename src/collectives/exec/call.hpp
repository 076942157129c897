// Call: the checked arguments of one collective, and the signature by which ranks compare theirs.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.hpp"
#include "collectives/plan/schedule.hpp"
#include "device/reduce.hpp"

namespace twohop {

enum class Operation : uint8_t { kSum, kProd, kMax, kMin, kAvg, kPreMulSum };

struct Call {
  Collective collective = Collective::kAllReduce;
  bool barrier = false;  // an all-reduce of nothing; told apart in messages and signatures
  const void* send = nullptr;
  void* recv = nullptr;
  uint64_t count = 0;  // elements; of one block for reduce-scatter and all-gather
  twohopDataType_t type = twohopUint8;
  Operation op = Operation::kSum;
  Scalar pre_multiplier{};  // kPreMulSum
  int root = 0;
};

/// Checks a call's arguments for a communicator of `nranks` on rank `rank`: pointers, alignment, type, root, sizes that
/// overflow, overlaps that are not exactly in place. Messages name the argument, its value and what is accepted.
Result<> check_call(const Call& call, int rank, int nranks);

/// How the two of a fold go together.
MathOp math_op(Operation op);
/// Is each contribution multiplied by a factor before it is folded?
bool scales_contributions(const Call& call);
/// The factor of this rank's contribution; one where there is none.
Scalar own_scale(const Call& call, int nranks);
/// What the complete sum is divided by: 1 unless it is an integer average.
uint64_t divisor_of(const Call& call, int nranks);

/// What must be equal on all ranks, packed: collective, type, operation, root, count.
uint64_t signature(const Call& call);
/// "AllReduce(count=100, type=float, op=sum)".
std::string describe_signature(uint64_t signature);

}  // namespace twohop
