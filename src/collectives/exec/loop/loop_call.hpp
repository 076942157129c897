// What the device loop works on: plain data, in memory that the GPU reaches; some of it the CPU and other GPUs too.
//
// Boards. Every rank has one board per rank of its node, in its own memory: `owner`'s board of `writer` has the layout
// of the head of a segment (WindowMap: control page, counters), is written by `writer` and polled by `owner`. So
// waiting costs no traffic between GPUs, and each word has one writer.
//
// Sequence numbers (calls, puts of each link) live in LoopState and LoopLink, not in the arguments of a launch: a
// captured graph may be replayed any number of times.
#pragma once

#include <cstddef>
#include <cstdint>

#include "collectives/exec/bound_step.hpp"
#include "collectives/exec/chunk_address.hpp"
#include "collectives/exec/loop/put_queue.hpp"
#include "collectives/exec/window_map.hpp"
#include "device/reduce_types.hpp"

namespace twohop {

/// This rank's, private to its kernels, which run one after the other. Zero-filled at the start.
struct LoopState {
  uint64_t finished = 0;    // calls; the next one has this number + 1
  uint64_t opened = 0;      // number of the call that lanes may run
  uint64_t lanes_done = 0;  // of the running call
  uint64_t faults = 0;      // found so far; the first one is reported
};

/// One end of a link, the kernel's own: counts of puts since it was made.
struct LoopLink {
  uint64_t posted = 0;         // out: puts posted; in: puts released
  uint64_t start = 0;          // of them when the running call began
  uint64_t before_last = 0;    // and when the call before it began
  uint64_t consumed_seen = 0;  // out: puts that the receiver is known to have released, at least
};
struct alignas(kCacheLine) LoopLinkWords {
  uint64_t sent = 0, consumed = 0;  // out
  uint64_t arrived = 0;             // in; written after the tags
  uint64_t unused = 0;
  struct Tag {
    uint64_t call, signature;
  } tags[4] = {};  // in: of the latest put of call c at [c % 4]
};

enum class LoopFault : uint64_t { kNone, kMismatchLocal, kMismatchLink, kPutTooScattered, kUnknownRegion };

/// What a rank's kernels and its progress thread tell each other, in host memory that both reach.
struct LoopReport {
  /// Not 0: all lanes give up. Set by the CPU (abort, timeout, lost rank), and by the kernel itself at a fault.
  alignas(kCacheLine) uint64_t stop = 0;
  /// Not 0: no copy that lanes have asked for is under way, and none will be. Set by the CPU when calls are over.
  uint64_t copies_ended = 0;
  // By the kernel: how far calls are; and what went wrong, where something did.
  alignas(kCacheLine) uint64_t started = 0;  // number of the latest call
  uint64_t finished = 0;
  uint64_t launch = 0;            // the latest finished call's LoopCall::launch that was not 0
  uint64_t who = 0, call = 0;     // local rank or in link; call number
  uint64_t ours = 0, theirs = 0;  // signatures
  uint64_t fault = 0;             // LoopFault, published last
};

struct LoopLane {
  const BoundStep* steps = nullptr;
  uint32_t count = 0;
  uint16_t channel = 0, number = 0;
  uint64_t counter = 0;  // bytes from the start of a board
};

/// The arguments of one launch.
struct LoopCall {
  CallPlaces places;  // `half` is filled in by the loop
  const LoopLane* lanes = nullptr;
  uint32_t lane_count = 0;
  int32_t frame_chunks = 1;
  int64_t rounds = 1;

  uint64_t signature = 0;
  Scalar scale{}, one{};  // of this rank's contribution; of partial results
  bool scaled = false;
  MathOp op = MathOp::kSum;
  uint64_t divisor = 1;

  int32_t me = 0, locals = 1;
  std::byte* const* boards = nullptr;        // [local]: the board of `local` in my memory
  std::byte* const* boards_of_me = nullptr;  // [local]: my board in the memory of `local`
  LoopState* state = nullptr;
  LoopLink* out = nullptr;
  LoopLink* in = nullptr;
  const LoopLinkWords* out_words = nullptr;
  const LoopLinkWords* in_words = nullptr;
  uint32_t out_count = 0, in_count = 0;
  PutQueue queue;
  /// Where puts are copied before they are sent, at (inbox, offset in it): host memory, for networks that cannot
  /// read the GPU's. Null: puts are sent from where they lie.
  std::byte* staging = nullptr;
  /// Chunks are copied between GPU memory and host memory by a copy engine, which the progress thread asks; else by the
  /// lanes themselves. It is told what lies in host memory.
  bool by_engine = false, windows_on_host = false, inboxes_on_host = false;
  /// Where the other ranks of the node find this rank's contribution without staging: a region of the user's registered
  /// memory and the bytes from its start (direct_word). 0: in the window, as the schedule says.
  uint64_t direct = 0;
  std::byte* const* regions = nullptr;  // [region * locals + local]: where this GPU sees the region of `local`
  LoopReport* report = nullptr;
  uint64_t launch = 0;  // numbers the launches that the CPU waits for; 0: a captured one, which may be replayed
};

/// What a lane's group of threads shares.
struct LoopScratch {
  CallPlaces places;  // of this call
  const std::byte* srcs[kMaxReduceSources];
  Scalar scales[kMaxReduceSources];
  uint64_t said[2];  // by the leader
  PutPiece pieces[2];
};

constexpr size_t kMostRegions = 64;  // at a time
constexpr int kDirectOffsetBits = 48;
constexpr uint64_t direct_word(uint64_t region, uint64_t offset) {
  return (region + 1) << kDirectOffsetBits | offset;
}

TWOHOP_HD inline uint64_t* word_of(std::atomic<uint64_t>& word) {
  return reinterpret_cast<uint64_t*>(&word);
}
TWOHOP_HD inline ControlPage& page_of(std::byte* board) {
  return *reinterpret_cast<ControlPage*>(board);
}

}  // namespace twohop
