// One collective call drawn from a generator, alike on all ranks that draw from the same seed, and the check of its
// result.
#pragma once

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "pattern.hpp"
#include "twohop/twohop.h"

namespace twohop::test {

/// Memory for `bytes`, starting `offset` bytes after a page boundary.
class Memory {
 public:
  explicit Memory(size_t bytes, size_t offset = 0) : memory_(bytes + offset + 4096), offset_(offset) {}
  unsigned char* get() {
    const auto base = reinterpret_cast<uintptr_t>(memory_.data());
    return memory_.data() + (4096 - base % 4096) % 4096 + offset_;
  }

 private:
  std::vector<unsigned char> memory_;
  size_t offset_;
};

struct RandomCall {
  enum Kind { kAllReduce, kReduceScatter, kAllGather, kBroadcast, kBarrier } kind;
  const perf::TypeInfo* type;
  perf::Op op;
  size_t count;
  int root;
  bool in_place;
  size_t offset;  // elements

  static RandomCall draw(std::mt19937_64& rng, int nranks) {
    const auto pick = [&](size_t n) { return static_cast<size_t>(rng() % n); };
    RandomCall c{};
    const size_t kind = pick(10);
    c.kind = kind < 6 ? kAllReduce : static_cast<Kind>(kind - 5);
    c.type = &perf::types()[pick(perf::types().size())];
    c.op = static_cast<perf::Op>(pick(5));
    c.count = (size_t{1} << pick(c.kind == kAllReduce ? 19 : 16)) - 1 + pick(3);
    c.root = static_cast<int>(pick(static_cast<size_t>(nranks)));
    c.in_place = pick(2) == 1;
    c.offset = pick(9);
    return c;
  }
  std::string text() const {
    return "kind " + std::to_string(kind) + " " + type->name + " op " + std::to_string(static_cast<int>(op)) +
           " count " + std::to_string(count) + " root " + std::to_string(root) + " in place " +
           std::to_string(in_place);
  }
};

struct CallOutcome {
  twohopResult_t result = twohopSuccess;
  uint64_t wrong = 0;  // elements; of a call that succeeded
};

/// Makes the call on one rank.
inline CallOutcome make_call(const RandomCall& c, int nranks, int rank, twohopComm_t comm) {
  const bool blocked = c.kind == RandomCall::kReduceScatter || c.kind == RandomCall::kAllGather;
  const size_t blocks = blocked ? static_cast<size_t>(nranks) : 1;
  const size_t block_bytes = c.count * c.type->bytes, mine = static_cast<size_t>(rank) * block_bytes;
  Memory a(blocks * block_bytes, c.offset * c.type->bytes), b(blocks * block_bytes, c.offset * c.type->bytes);
  const perf::Pattern pattern(*c.type, c.op, nranks, c.count * blocks);
  const auto op = static_cast<twohopRedOp_t>(c.op);
  const auto type = c.type->type;
  unsigned char* whole = c.in_place ? b.get() : a.get();
  switch (c.kind) {
    case RandomCall::kAllReduce:
      pattern.fill_input(rank, whole, c.count);
      if (const auto r = twohopAllReduce(whole, b.get(), c.count, type, op, comm, nullptr)) return {r, 0};
      return {twohopSuccess, pattern.count_wrong_result(b.get(), c.count)};
    case RandomCall::kReduceScatter: {
      pattern.fill_input(rank, a.get(), c.count * blocks);
      unsigned char* recv = c.in_place ? a.get() + mine : b.get();
      if (const auto r = twohopReduceScatter(a.get(), recv, c.count, type, op, comm, nullptr)) return {r, 0};
      return {twohopSuccess, pattern.count_wrong_result(recv, c.count, c.count * static_cast<size_t>(rank))};
    }
    case RandomCall::kAllGather: {
      unsigned char* send = c.in_place ? b.get() + mine : a.get();
      pattern.fill_input(rank, send, c.count);
      if (const auto r = twohopAllGather(send, b.get(), c.count, type, comm, nullptr)) return {r, 0};
      CallOutcome outcome;
      for (int r = 0; r < nranks; ++r)
        outcome.wrong += pattern.count_wrong_input(r, b.get() + static_cast<size_t>(r) * block_bytes, c.count);
      return outcome;
    }
    case RandomCall::kBroadcast:
      if (rank == c.root) pattern.fill_input(rank, whole, c.count);
      if (const auto r = twohopBroadcast(whole, b.get(), c.count, type, c.root, comm, nullptr)) return {r, 0};
      return {twohopSuccess, pattern.count_wrong_input(c.root, b.get(), c.count)};
    case RandomCall::kBarrier:
      break;
  }
  return {twohopBarrier(comm, nullptr), 0};
}

}  // namespace twohop::test
