// The schedule language: what one rank does in one channel of one collective, as data.
//
// A program is a set of lanes that run concurrently; a lane is a sequential list of steps, repeated for every round. A
// round covers `chunks` chunks of each of `shards` shards. The same program is executed (exec/), proved (checker.hpp)
// and drawn.
//
// Memory. Input and output are the user's. A window belongs to one rank and is mapped by all ranks of its node; it has
// areas, each a ring of slots, one chunk a slot. An inbox belongs to a link (below) and is a ring of put slots in the
// receiver's window, so that local ranks read what arrived where it lies.
//
// Order. Every lane has one counter of the signals it gave in this call; other lanes of the node wait for it. Targets
// are linear in the round: round * per_round + offset, and a target of 0 or less holds at once (it speaks of a slot's
// first use in the call). So one program serves any number of rounds.
//
// Links. A link is a one-way stream of puts to a rank of another node. Arrive, Sent and Release count puts of the call
// the same way. Slots of window areas and inboxes are chosen by these counts modulo the ring, in the half of the memory
// that belongs to the call's parity; a call first waits until the call before the last has finished everywhere it
// matters (exec/, checker).
#pragma once

#include <cstdint>
#include <vector>

namespace twohop {

enum class Collective : uint8_t { kAllReduce, kReduceScatter, kAllGather, kBroadcast };
inline constexpr Collective kCollectives[] = {Collective::kAllReduce, Collective::kReduceScatter,
                                              Collective::kAllGather, Collective::kBroadcast};
const char* collective_name(Collective c);

enum class StepKind : uint8_t {
  kCopy,     // dst <- srcs[0]
  kReduce,   // dst <- fold of srcs, left to right; dst may be one of them
  kPut,      // srcs[0].. (one chunk each, or none) -> the next slot of an out link's inbox; reads them until Sent
  kSent,     // waits until `target` puts of an out link no longer read their sources
  kArrive,   // waits until `target` puts of an in link have arrived
  kRelease,  // gives the credit of the next put of an in link back: its slot may be written again
  kSignal,   // counts this lane's counter up by one
  kWait      // waits until the counter of (rank, lane) has reached `target`
};
const char* step_name(StepKind k);

enum class Space : uint8_t { kInput, kOutput, kWindow, kInbox };

/// round * per_round + offset.
struct Linear {
  int64_t per_round = 0, offset = 0;
  constexpr int64_t at(int64_t round) const { return round * per_round + offset; }
  bool operator==(const Linear&) const = default;
};

/// Where one chunk lies. All operands of a step hold the step's chunk.
struct Ref {
  Space space = Space::kInput;
  int32_t owner = -1;   // window, inbox: the rank whose memory it is
  int32_t from = -1;    // inbox: the rank that puts into it
  uint16_t area = 0;    // window: area; inbox: the link's tag
  uint16_t part = 0;    // inbox: which chunk of the put
  Linear index;         // window: slot count; inbox: put number (both before the modulo)
  int32_t raw_of = -1;  // the rank whose unscaled contribution this is; -1: a partial result
};

struct Step {
  StepKind kind = StepKind::kSignal;
  bool final = false;  // kReduce: completes the chunk (the divisor of an integer average applies here)
  uint16_t shard = 0;  // the chunk: shard and index in the round; kPut: the first of srcs.size() chunks,
  uint32_t chunk = 0;  //   whose index runs on modulo the schedule's `chunks`
  Ref dst;
  std::vector<Ref> srcs;
  int32_t rank = -1;  // kWait
  uint16_t lane = 0;  // kWait
  uint16_t link = 0;  // kPut, kSent: index in Program::out; kArrive, kRelease: in Program::in
  Linear target;      // kWait, kSent, kArrive; kPut and kRelease: number of this put, from 0
};

struct LinkEnd {
  uint16_t tag = 0;   // tells apart links between the same two ranks in a channel
  int32_t peer = -1;  // the rank at the other end
  bool operator==(const LinkEnd&) const = default;
};

/// What is common to the programs of all ranks.
struct Frame {
  Collective collective = Collective::kAllReduce;
  int32_t root = 0;  // broadcast
  int32_t shards = 1;
  int32_t chunks = 1;            // per shard and round
  int32_t chunks_per_block = 1;  // reduce-scatter, all-gather: chunks b * chunks_per_block .. belong to node b's ranks
  int32_t chunks_per_put = 1;    // at most; slots of an inbox are that large
  int32_t areas = 1;             // of a window
  int32_t slots = 4;             // of an area
  int32_t put_slots = 4;         // of an inbox
};

struct Program {
  std::vector<std::vector<Step>> lanes;
  std::vector<LinkEnd> out, in;
};

}  // namespace twohop
