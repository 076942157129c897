// A group of threads copies or reduces one chunk: one pass over all sources, 16 bytes at a time.
//
// Group has thread() and threads(): which of how many this one is. Every thread of the group calls these functions with
// the same arguments, and does its share; who reads the result synchronises first. Sources and destination are read and
// written by other GPUs while the kernel runs, so that nothing here may be declared __restrict__: the compiler would
// take the loads through a cache that is not coherent.
#pragma once

#include <cstddef>

#include "device/element/fold.hpp"

namespace twohop::element {

constexpr size_t kPackBytes = 16;
struct alignas(kPackBytes) Words {
  uint32_t w[4];
};

TWOHOP_HD inline Words load_words(const std::byte* p) {
  Words words;
  memcpy(&words, __builtin_assume_aligned(p, kPackBytes), kPackBytes);
  return words;
}
TWOHOP_HD inline void store_words(std::byte* p, const Words& words) {
  memcpy(__builtin_assume_aligned(p, kPackBytes), &words, kPackBytes);
}

/// The largest power of two up to 16 that all of the or-ed addresses and lengths are multiples of.
TWOHOP_HD inline bool is_multiple(uintptr_t addresses, size_t of) {
  return (addresses & (of - 1)) == 0;
}
TWOHOP_HD inline uintptr_t bits_of(const void* p) {
  return reinterpret_cast<uintptr_t>(p);
}

/// 16 bytes of elements while they are folded.
template <class E>
struct Pack {
  using Bits = typename E::Bits;
  static constexpr int kElements = kPackBytes / sizeof(Bits);
  typename E::Acc acc[kElements];

  TWOHOP_HD void widen(const Words& words) {
    Bits bits[kElements];
    memcpy(bits, &words, kPackBytes);
    TWOHOP_UNROLL
    for (int i = 0; i < kElements; ++i) acc[i] = E::widen(bits[i]);
  }
  TWOHOP_HD Words narrow() const {
    Bits bits[kElements];
    TWOHOP_UNROLL
    for (int i = 0; i < kElements; ++i) bits[i] = E::narrow(acc[i]);
    Words words;
    memcpy(&words, bits, kPackBytes);
    return words;
  }
  template <class F>
  TWOHOP_HD void each(F f) {
    TWOHOP_UNROLL
    for (int i = 0; i < kElements; ++i) acc[i] = f(i, acc[i]);
  }
};

/// The sources of one reduction; `scales` is null (all one) or one per source. The arrays must not change meanwhile.
struct ChunkSources {
  const std::byte* const* srcs = nullptr;
  const Scalar* scales = nullptr;
  int count = 0;
};

/// One reduction of a chunk. E: an element type; kOp: how two are folded.
template <class E, MathOp kOp>
class ChunkReduction {
  using F = Fold<kOp, E>;
  using Bits = typename E::Bits;
  // Packs per thread and turn: enough loads in flight, few enough registers for 512 threads to share an SM.
  static constexpr int kUnroll = sizeof(Bits) == 1 ? 2 : 4;

 public:
  TWOHOP_HD ChunkReduction(std::byte* dst, const ChunkSources& in, uint64_t divisor)
      : dst_(dst), in_(in), divisor_(divisor) {}

  template <class Group>
  TWOHOP_HD void run(const Group& group, size_t bytes) const {
    const size_t packs = aligned() ? bytes / kPackBytes : 0;
    size_t at = group.thread();
    const size_t step = group.threads();
    for (; at + (kUnroll - 1) * step < packs; at += kUnroll * step) packs_at<kUnroll>(at, step);
    for (; at < packs; at += step) packs_at<1>(at, step);
    // The rest, or all where an address is not a multiple of 16.
    const size_t count = bytes / sizeof(Bits);
    const size_t first = packs * Pack<E>::kElements + group.thread();
    for (size_t i = first; i < count; i += step) element_at(i);
    if constexpr (!E::kFloating && kOp == MathOp::kSum) {
      if (divisor_ <= 1) return;
      // An average: what this thread has written, in place.
      for (at = group.thread(); at < packs; at += step)
        for (size_t i = 0; i < Pack<E>::kElements; ++i) divide(at * Pack<E>::kElements + i);
      for (size_t i = first; i < count; i += step) divide(i);
    }
  }

 private:
  TWOHOP_HD bool aligned() const {
    uintptr_t all = bits_of(dst_);
    for (int s = 0; s < in_.count; ++s) all |= bits_of(in_.srcs[s]);
    return is_multiple(all, kPackBytes);
  }

  /// Pack by pack from the loaded words to the result, so that few accumulators are live at a time.
  template <int kPacks>
  TWOHOP_HD void packs_at(size_t at, size_t step) const {
    Pack<E> result[kPacks];
    Words words[kPacks];
    load(words, 0, at, step);
    TWOHOP_UNROLL
    for (int u = 0; u < kPacks; ++u) result[u] = scaled(words[u], 0);
    for (int s = 1; s < in_.count; ++s) {
      load(words, s, at, step);
      TWOHOP_UNROLL
      for (int u = 0; u < kPacks; ++u) {
        const Pack<E> next = scaled(words[u], s);
        result[u].each([&](int i, auto x) { return F::fold(x, next.acc[i]); });
      }
    }
    TWOHOP_UNROLL
    for (int u = 0; u < kPacks; ++u) store_words(dst_ + (at + u * step) * kPackBytes, result[u].narrow());
  }
  template <int kPacks>
  TWOHOP_HD void load(Words (&words)[kPacks], int source, size_t at, size_t step) const {
    TWOHOP_UNROLL
    for (int u = 0; u < kPacks; ++u) words[u] = load_words(in_.srcs[source] + (at + u * step) * kPackBytes);
  }
  TWOHOP_HD Pack<E> scaled(const Words& words, int source) const {
    Pack<E> pack;
    pack.widen(words);
    if (in_.scales != nullptr) {
      const auto by = E::scale(in_.scales[source]);
      pack.each([&](int, auto x) { return F::scaled(x, by); });
    }
    return pack;
  }

  TWOHOP_HD void element_at(size_t i) const {
    auto result = element_of(0, i);
    for (int s = 1; s < in_.count; ++s) result = F::fold(result, element_of(s, i));
    reinterpret_cast<Bits*>(dst_)[i] = E::narrow(result);
  }
  TWOHOP_HD void divide(size_t i) const {
    Bits& x = reinterpret_cast<Bits*>(dst_)[i];
    x = E::divide(x, divisor_);
  }
  TWOHOP_HD typename E::Acc element_of(int source, size_t i) const {
    const auto x = E::widen(reinterpret_cast<const Bits*>(in_.srcs[source])[i]);
    return in_.scales == nullptr ? x : F::scaled(x, E::scale(in_.scales[source]));
  }

  std::byte* dst_;
  const ChunkSources& in_;
  uint64_t divisor_;
};

/// dst[i] = fold over the sources; dst may be exactly one of them. Pointers are aligned to the element; 16-byte
/// accesses where all are aligned to that. `divisor` > 1: integers only.
template <class E, class Group>
TWOHOP_HD void reduce_chunk(const Group& group, MathOp op, std::byte* dst, const ChunkSources& in, uint64_t divisor,
                            size_t bytes) {
  switch (op) {
    case MathOp::kSum:
      return ChunkReduction<E, MathOp::kSum>(dst, in, divisor).run(group, bytes);
    case MathOp::kProd:
      return ChunkReduction<E, MathOp::kProd>(dst, in, divisor).run(group, bytes);
    case MathOp::kMax:
      return ChunkReduction<E, MathOp::kMax>(dst, in, divisor).run(group, bytes);
    case MathOp::kMin:
      return ChunkReduction<E, MathOp::kMin>(dst, in, divisor).run(group, bytes);
  }
}

template <class T, class Group>
TWOHOP_HD void copy_as(const Group& group, std::byte* dst, const std::byte* src, size_t bytes, size_t from) {
  for (size_t i = from / sizeof(T) + group.thread(); i < bytes / sizeof(T); i += group.threads())
    reinterpret_cast<T*>(dst)[i] = reinterpret_cast<const T*>(src)[i];
}

template <class Group>
TWOHOP_HD size_t copy_packs(const Group& group, std::byte* dst, const std::byte* src, size_t bytes) {
  constexpr int kUnroll = 4;
  const size_t packs = bytes / kPackBytes, step = group.threads();
  size_t at = group.thread();
  for (; at + (kUnroll - 1) * step < packs; at += kUnroll * step) {
    Words words[kUnroll];
    TWOHOP_UNROLL
    for (int u = 0; u < kUnroll; ++u) words[u] = load_words(src + (at + u * step) * kPackBytes);
    TWOHOP_UNROLL
    for (int u = 0; u < kUnroll; ++u) store_words(dst + (at + u * step) * kPackBytes, words[u]);
  }
  for (; at < packs; at += step) store_words(dst + at * kPackBytes, load_words(src + at * kPackBytes));
  return packs * kPackBytes;
}

/// Copies bytes of any alignment, in the widest pieces that both addresses allow.
template <class Group>
TWOHOP_HD void copy_chunk(const Group& group, std::byte* dst, const std::byte* src, size_t bytes) {
  const uintptr_t both = bits_of(dst) | bits_of(src);
  size_t done = 0;
  if (is_multiple(both, kPackBytes)) {
    done = copy_packs(group, dst, src, bytes);
  } else if (is_multiple(both, 8)) {
    copy_as<uint64_t>(group, dst, src, bytes, 0);
    done = bytes / 8 * 8;
  } else if (is_multiple(both, 4)) {
    copy_as<uint32_t>(group, dst, src, bytes, 0);
    done = bytes / 4 * 4;
  }
  copy_as<uint8_t>(group, dst, src, bytes, done);
}

}  // namespace twohop::element
