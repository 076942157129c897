// One pass over all sources: load a block of each, fold in registers, round once, store. Knows no types.
#pragma once

#include "device/kernels/fold.hpp"
#include "device/reduce_types.hpp"

namespace twohop {
namespace {

/// kUnroll vectors of elements in registers.
template <class Format, int kUnroll>
struct Block {
  using T = typename Format::Lane;
  static constexpr size_t kBytes = kUnroll * kVectorBytes;
  static constexpr int kVectors = kUnroll * Format::kParts;
  typename Format::Acc acc[kVectors];

  void load(const std::byte* p) {
    for (int u = 0; u < kUnroll; ++u) Format::load(p + u * kVectorBytes, acc + u * Format::kParts);
  }
  void store(std::byte* p) const {
    for (int u = 0; u < kUnroll; ++u) Format::store(p + u * kVectorBytes, acc + u * Format::kParts);
  }
  template <class Op>
  void fold(const Block& next) {
    for (int v = 0; v < kVectors; ++v) acc[v] = Op::template fold<T>(acc[v], next.acc[v]);
  }
  void scale(T by) {
    for (int v = 0; v < kVectors; ++v) acc[v] = scaled<T>(acc[v], by);
  }
};

inline void get_scale(const Scalar& s, float& out) {
  out = s.f32;
}
inline void get_scale(const Scalar& s, double& out) {
  out = s.f64;
}
template <class T>
inline void get_scale(const Scalar& s, T& out) {
  out = static_cast<T>(s.bits);
}

struct Sources {
  const void* const* srcs;
  int nsrcs;
  const Scalar* scales;
};

/// The first `bytes` of a block (all of it unless kPartial) of source s. A partial block goes through a buffer, so
/// that the last elements see the very same arithmetic.
template <class Format, bool kScaled, bool kPartial, int kUnroll>
inline void load_block(Block<Format, kUnroll>& block, const Sources& in, int s, size_t at, size_t bytes) {
  const auto* src = static_cast<const std::byte*>(in.srcs[s]) + at;
  if constexpr (kPartial) {
    alignas(kVectorBytes) std::byte buffer[Block<Format, kUnroll>::kBytes] = {};
    __builtin_memcpy(buffer, src, bytes);
    block.load(buffer);
  } else {
    block.load(src);
  }
  if constexpr (kScaled) {
    typename Format::Lane by;
    get_scale(in.scales[s], by);
    block.scale(by);
  }
}

/// kSources 0: as many as `in` says.
template <class Format, class Op, int kSources, bool kScaled, bool kPartial, int kUnroll>
inline void reduce_block(std::byte* dst, const Sources& in, size_t at, size_t bytes) {
  const int nsrcs = kSources > 0 ? kSources : in.nsrcs;
  Block<Format, kUnroll> result, next;
  load_block<Format, kScaled, kPartial>(result, in, 0, at, bytes);
  for (int s = 1; s < nsrcs; ++s) {
    load_block<Format, kScaled, kPartial>(next, in, s, at, bytes);
    result.template fold<Op>(next);
  }
  if constexpr (kPartial) {
    alignas(kVectorBytes) std::byte buffer[Block<Format, kUnroll>::kBytes];
    result.store(buffer);
    __builtin_memcpy(dst + at, buffer, bytes);
  } else {
    result.store(dst + at);
  }
}

/// About eight accumulator vectors: enough loads in flight, and few enough for 16 registers with a second operand.
template <class Format>
constexpr int kUnrollOf = Format::kParts >= 4 ? 1 : 4 / Format::kParts;

// noinline: nothing of it may move out of the floating-point mode that the caller has set.
template <class Format, class Op, int kSources, bool kScaled>
[[gnu::noinline]] void reduce_pass(std::byte* dst, const Sources& sources, size_t bytes) {
  constexpr int kUnroll = kUnrollOf<Format>;
  // Copies, since a store to dst might change the caller's arrays as far as the compiler knows.
  const void* local[kSources > 0 ? kSources : 1];
  for (int s = 0; s < kSources; ++s) local[s] = sources.srcs[s];
  const Sources in{kSources > 0 ? local : sources.srcs, sources.nsrcs, sources.scales};

  size_t at = 0;
  for (; at + kUnroll * kVectorBytes <= bytes; at += kUnroll * kVectorBytes)
    reduce_block<Format, Op, kSources, kScaled, false, kUnroll>(dst, in, at, 0);
  for (; at + kVectorBytes <= bytes; at += kVectorBytes)
    reduce_block<Format, Op, kSources, kScaled, false, 1>(dst, in, at, 0);
  if (at < bytes) reduce_block<Format, Op, 0, kScaled, true, 1>(dst, in, at, bytes - at);
}

template <class Format, class Op>
inline void reduce_plain(std::byte* dst, const Sources& in, size_t bytes) {
  switch (in.nsrcs) {
    case 2:
      return reduce_pass<Format, Op, 2, false>(dst, in, bytes);
    case 3:
      return reduce_pass<Format, Op, 3, false>(dst, in, bytes);
    case 4:
      return reduce_pass<Format, Op, 4, false>(dst, in, bytes);
    default:
      return reduce_pass<Format, Op, 0, false>(dst, in, bytes);
  }
}

}  // namespace
}  // namespace twohop
