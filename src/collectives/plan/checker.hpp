// The checker: proves that a sequence of calls on a cluster computes what it should, whatever the timing.
//
// It runs the programs of all ranks symbolically: a chunk's value is the set of ranks whose contributions it holds.
// Data hazards are decided by happens-before, not by the order of the one run that is simulated: vector clocks over the
// lanes and links of a node; edges: signal -> wait, put -> sent, put -> arrive, release -> later put into the same
// inbox (which links share, inbox_sharing.hpp), end of a call -> the call after the next. What a node knows of its own
// lanes and links it must know from within: a detour over another node ("they answered, so they have read it") does not
// count. That is stricter than needed, holds under retransmission too, and keeps clocks as small as a node.
//
// Since waits only ever become true and every slot and credit belongs to one lane and one peer, one greedy run that
// gets stuck is a proof of a deadlock, and one that does not is a proof of its absence. How a proof for some rounds
// covers any number: check_rounds.hpp.
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
  kProtocol,               // a release or put out of order or left out, an index or rank out of range
  kScaling,                // a contribution is scaled, or a sum divided, not exactly once
  kOperandOrder,           // an operand of a reduce stands left of one that holds a lower rank
  kUnequalBits,            // ranks get the same sum by different operations
  kRailCrossed,            // a put between ranks near different rails, of an algorithm that does not cross
  kAsymmetry               // a check by symmetry of programs that are not symmetric
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
  /// By rank: sends from its input without staging (direct.hpp). Contributions are then not scaled. Empty: none does.
  std::vector<bool> direct = {};
};

struct CheckOptions {
  /// Changes a program before it is run: how tests plant faults.
  std::function<void(int call, int rank, Program&)> mutate;
  /// False leaves out the wait of a call for the end of the call before the last.
  bool order_calls = true;
  /// False leaves out the wait of a link's first put of a call for what other links have put into the inbox.
  bool order_sharing_links = true;
  /// Runs the ranks of node 0 only, and takes what they put for what arrives from other nodes: for algorithms whose
  /// programs are the same for every node, but for the numbers of nodes and blocks, on even clusters. See
  /// check_symmetry.hpp.
  bool by_symmetry = false;
  /// Fills CheckReport::round_digests.
  bool digest_rounds = false;
};

/// A step of a program.
struct StepId {
  int rank = 0;
  size_t lane = 0, step = 0;
  bool operator==(const StepId&) const = default;
};

struct CheckReport {
  std::optional<Fault> fault;
  uint64_t steps = 0;
  /// Chunks put out of each node to other nodes, void chunks not counted, in the first call.
  std::vector<uint64_t> chunks_out_of_node;
  uint64_t chunks_of_buffer = 0;  // in the first call: what the former is relative to
  int64_t most_in_flight = 0;     // of a link, in all calls: puts that are not released yet
  /// By round of the first call: what is known at each of its steps, and what its memory holds, relative to the round.
  std::vector<uint64_t> round_digests;
  /// Wait, Sent and Arrive steps of the first call that never told their lane anything that it did not know.
  std::vector<StepId> idle_steps;
};

CheckReport check(const Cluster& cluster, const std::vector<CheckedCall>& calls, const CheckOptions& options = {});

}  // namespace twohop
