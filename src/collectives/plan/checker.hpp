// The checker: proves that a sequence of calls on a cluster computes what it should, whatever the timing.
//
// It runs the programs of all ranks symbolically: a chunk's value is the set of ranks whose contributions it holds.
// Data hazards are decided by happens-before (vector clocks over lanes and links; edges: signal -> wait, put -> sent,
// put -> arrive, release -> later put, end of call -> the call after the next), not by the order of the one run that is
// simulated. Since waits only ever become true and every slot and credit belongs to one lane and one peer, one greedy
// run that gets stuck is a proof of a deadlock, and one that does not is a proof of its absence.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "collectives/plan/algorithm.hpp"

namespace twohop {

enum class FaultKind : uint8_t {
  kContributionDoubled,    // a reduce or an output holds a rank's contribution twice
  kContributionMissing,    // an output chunk lacks a contribution at the end of its call
  kReadTooEarly,           // a source is not, or not certainly, written yet
  kOverwrittenBeforeRead,  // a write is not ordered after a read of the old value
  kOverwrittenBeforeSent,  // the same where the read is a put's
  kEarlyRelease,           // a put may overwrite an inbox slot that is still read
  kDeadWrite,              // a value is overwritten, or left, that nobody has read
  kDeadlock,               // no lane can go on
  kCallOvertaken,          // a later call may overwrite what an earlier call still uses
  kProtocol                // a release or put out of order, a slot ring too small, an index out of range
};
const char* fault_name(FaultKind k);

struct Fault {
  FaultKind kind;
  std::string text;  // call, rank, lane, step and chunk
};

struct CheckedCall {
  const Algorithm* algorithm = nullptr;
  Collective collective = Collective::kAllReduce;
  int root = 0;
  Depths depths;
  int rounds = 2;
  bool in_place = false;
};

struct CheckOptions {
  /// Changes a program before it is run: how tests plant faults.
  std::function<void(int call, int rank, Program&)> mutate;
  /// False leaves out the wait of a call for the end of the call before the last.
  bool order_calls = true;
};

struct CheckReport {
  std::optional<Fault> fault;
  uint64_t steps = 0;
  /// Chunks put out of each node to other nodes, void chunks not counted, in the first call.
  std::vector<uint64_t> chunks_out_of_node;
  uint64_t chunks_of_buffer = 0;  // in the first call: what the former is relative to
  /// How far every lane's knowledge of every other lane reaches at the end of the first call, in steps relative to that
  /// lane's end. Equal frontiers after r and r + 1 rounds mean that rounds repeat, so that a proof for few rounds
  /// covers any number.
  std::vector<int64_t> frontier;
};

CheckReport check(const Cluster& cluster, const std::vector<CheckedCall>& calls, const CheckOptions& options = {});

}  // namespace twohop
