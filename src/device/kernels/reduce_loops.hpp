// One pass over all sources: load a block of each, fold in registers, round once, store. Knows no types.
#pragma once

#include "device/kernels/fold.hpp"
#include "device/kernels/formats.hpp"
#include "device/reduce_types.hpp"

namespace twohop {
namespace {

/// Formats of one operation only, which say themselves how to fold.
template <class Format>
concept FoldsItself = requires(typename Format::Acc* acc) {
  Format::fold(acc, acc);
};
/// Formats that do not get every sum right name the one to use where they do not.
template <class Format>
concept HasFallback = requires {
  typename Format::Fallback;
};
/// Those that can tell by the elements of the sources,
template <class Format>
concept JudgesSources = requires(const std::byte* p, U32 so_far) {
  Format::special(p, so_far);
};
/// and those that can tell by the results: try_store() is false then, and has written none of them. They name as
/// kUnroll how many vectors it takes at most.
template <class Format>
concept JudgesResults = requires(std::byte* p, const typename Format::Acc* acc) {
  Format::template try_store<1>(p, acc);
};

/// kUnroll vectors of elements in registers.
template <class Format, int kUnroll>
struct Block {
  using T = typename Format::Lane;
  static constexpr size_t kBytes = kUnroll * kVectorBytes;
  static constexpr int kVectors = kUnroll * Format::kParts;
  typename Format::Acc acc[kVectors];

  [[gnu::always_inline]] void load(const std::byte* p) {
    for (int u = 0; u < kUnroll; ++u) Format::load(p + u * kVectorBytes, acc + u * Format::kParts);
  }
  [[gnu::always_inline]] void store(std::byte* p) {
    if constexpr (requires { Format::kStoresNoNan; }) {
      if (any_nan()) [[unlikely]]  // one test for all vectors, since there hardly ever is any
        for (int v = 0; v < kVectors; ++v) acc[v] = canonical(acc[v]);
    }
    for (int u = 0; u < kUnroll; ++u) Format::store(p + u * kVectorBytes, acc + u * Format::kParts);
  }
  template <class Op>
  [[gnu::always_inline]] void fold(const Block& next) {
    if constexpr (FoldsItself<Format>) {
      for (int u = 0; u < kUnroll; ++u) Format::fold(acc + u * Format::kParts, next.acc + u * Format::kParts);
    } else {
      for (int v = 0; v < kVectors; ++v) acc[v] = Op::template fold<T>(acc[v], next.acc[v]);
    }
  }
  [[gnu::always_inline]] void scale(T by) {
    for (int v = 0; v < kVectors; ++v) acc[v] = scaled<T>(acc[v], by);
  }

 private:
  [[gnu::always_inline]] bool any_nan() const {
    static_assert(kVectors == 2 || kVectors == 4);
    if constexpr (kVectors == 4) return twohop::any_nan(acc[0], acc[1], acc[2], acc[3]);
    return twohop::any_nan(acc[0], acc[1]);
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

/// Block `at` of source s, scaled; what its format could not hold is or-ed into `special`.
template <class Format, bool kScaled, int kUnroll>
[[gnu::always_inline]] inline void load_block(Block<Format, kUnroll>& block, const Sources& in, int s, size_t at,
                                              U32& special) {
  const auto* src = static_cast<const std::byte*>(in.srcs[s]) + at;
  block.load(src);
  if constexpr (JudgesSources<Format>)
    for (int u = 0; u < kUnroll; ++u) special = Format::special(src + u * kVectorBytes, special);
  if constexpr (kScaled) {
    typename Format::Lane by;
    get_scale(in.scales[s], by);
    block.scale(by);
  }
}

/// False, and nothing is written, when the block is one for the format's fallback. kSources 0: as many as `in` says.
template <class Format, class Op, int kSources, bool kScaled, int kUnroll>
[[gnu::always_inline]] inline bool reduce_block(std::byte* dst, const Sources& in, size_t at) {
  const int nsrcs = kSources > 0 ? kSources : in.nsrcs;
  Block<Format, kUnroll> result, next;
  U32 special = {};
  load_block<Format, kScaled>(result, in, 0, at, special);
  for (int s = 1; s < nsrcs; ++s) {
    load_block<Format, kScaled>(next, in, s, at, special);
    result.template fold<Op>(next);
  }
  if constexpr (JudgesSources<Format>) {
    if (any(special, Format::kSigns)) [[unlikely]]
      return false;
  }
  if constexpr (JudgesResults<Format>) {
    return Format::template try_store<kUnroll>(dst + at, result.acc);
  } else {
    result.store(dst + at);
    return true;
  }
}

/// Blocks from `at` on, to the first that does not end within `bytes` or is one for the fallback; returns where that
/// is. noinline: the loop's constants stay in registers, and nothing moves out of the floating-point mode set by the
/// caller.
template <class Format, class Op, int kSources, bool kScaled, int kUnroll>
[[gnu::noinline]] size_t reduce_run(std::byte* dst, const Sources& sources, size_t at, size_t bytes) {
  // Copies, since a store to dst might change the caller's arrays as far as the compiler knows.
  const void* local[kSources > 0 ? kSources : 1];
  for (int s = 0; s < kSources; ++s) local[s] = sources.srcs[s];
  const Sources in{kSources > 0 ? local : sources.srcs, sources.nsrcs, sources.scales};

  constexpr size_t kStep = kUnroll * kVectorBytes;
  while (at + kStep <= bytes && reduce_block<Format, Op, kSources, kScaled, kUnroll>(dst, in, at)) at += kStep;
  return at;
}

/// All whole blocks from `at` on; returns where they end.
template <class Format, class Op, int kSources, bool kScaled, int kUnroll>
inline size_t reduce_blocks(std::byte* dst, const Sources& in, size_t at, size_t bytes) {
  at = reduce_run<Format, Op, kSources, kScaled, kUnroll>(dst, in, at, bytes);
  if constexpr (HasFallback<Format>) {
    // Where the format fails again and again, longer and longer pieces are left to its fallback.
    constexpr size_t kStep = kUnroll * kVectorBytes, kLongest = 64 * kStep;
    for (size_t piece = kStep; at + kStep <= bytes;) {
      const size_t whole = (bytes - at) / kStep * kStep, end = at + (piece < whole ? piece : whole);
      reduce_blocks<typename Format::Fallback, Op, 0, kScaled, kUnroll>(dst, in, at, end);
      at = reduce_run<Format, Op, kSources, kScaled, kUnroll>(dst, in, end, bytes);
      if (at > end) {
        piece = kStep;
      } else if (piece < kLongest) {
        piece *= 2;
      }
    }
  }
  return at;
}

/// The last bytes, less than a vector: copied to buffers of a whole one, so that they see the very same arithmetic.
template <class Format, class Op, bool kScaled>
[[gnu::noinline]] void reduce_tail(std::byte* dst, const Sources& in, size_t at, size_t bytes) {
  alignas(kVectorBytes) std::byte padded[kMaxReduceSources][kVectorBytes], result[kVectorBytes];
  const void* srcs[kMaxReduceSources];
  for (int s = 0; s < in.nsrcs; ++s) {
    store(padded[s], load_first(static_cast<const std::byte*>(in.srcs[s]) + at, bytes));
    srcs[s] = padded[s];
  }
  reduce_blocks<Format, Op, 0, kScaled, 1>(result, {srcs, in.nsrcs, in.scales}, 0, kVectorBytes);
  store_first(dst + at, load<Bytes>(result), bytes);
}

/// What the format asks for, else four accumulators: enough loads in flight, and with the second operand few enough for
/// 16 registers.
template <class Format>
constexpr int unroll() {
  if constexpr (requires { Format::kUnroll; }) {
    return Format::kUnroll;
  } else {
    return Format::kParts < 4 ? 4 / Format::kParts : 1;
  }
}

template <class Format, class Op, int kSources, bool kScaled>
inline void reduce_pass(std::byte* dst, const Sources& in, size_t bytes) {
  constexpr int kUnroll = unroll<Format>();
  size_t at = 0;
  if constexpr (kUnroll > 1) at = reduce_blocks<Format, Op, kSources, kScaled, kUnroll>(dst, in, at, bytes);
  at = reduce_blocks<Format, Op, kSources, kScaled, 1>(dst, in, at, bytes);
  if (at < bytes) reduce_tail<Format, Op, kScaled>(dst, in, at, bytes - at);
}

/// What two sources are folded in: formats may name a quicker one for them.
template <class Format>
struct ForTwo {
  using type = Format;
};
template <class Format>
requires requires {
  typename Format::ForTwo;
}
struct ForTwo<Format> {
  using type = typename Format::ForTwo;
};

template <class Format, class Op>
inline void reduce_plain(std::byte* dst, const Sources& in, size_t bytes) {
  switch (in.nsrcs) {
    case 2:
      return reduce_pass<typename ForTwo<Format>::type, Op, 2, false>(dst, in, bytes);
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
