// Minimum and maximum of floats without any arithmetic: as integers of the same width, whose order is the float's.
//
// Flipping the magnitude bits of negative patterns gives keys that order as -NaN < -inf < ... < -0 < +0 < ... < +inf <
// +NaN. NaNs are ignored by moving them all to the losing end; a result still there means that all were NaN.
#pragma once

#include "device/kernels/isa.hpp"

namespace twohop {
namespace {

/// I: signed, of the float's width. kTop: the largest pattern that is not NaN; kLargest: what the result saturates to.
template <class I, I kTop, I kLargest, I kNan, bool kMax>
struct Ordered {
  using Acc = Vec<I>;
  using Lane = I;
  static constexpr int kParts = 1;
  static constexpr I kHighest = I(~(I(1) << (8 * sizeof(I) - 1)));
  static constexpr I kLowest = I(~kHighest);

  [[gnu::always_inline]] static void load(const std::byte* p, Acc* acc) {
    const Acc key = flip(twohop::load<Acc>(p));
    if constexpr (kMax) {
      acc[0] = key > splat(kTop) ? splat(kLowest) : key;
    } else {
      acc[0] = key < splat(I(~kTop)) ? splat(kHighest) : key;
    }
  }
  [[gnu::always_inline]] static void store(std::byte* p, const Acc* acc) {
    const Acc key = acc[0];
    const Acc value = flip(saturated(key));
    if constexpr (kMax) {
      twohop::store(p, key < splat(I(~kTop)) ? splat(kNan) : value);
    } else {
      twohop::store(p, key > splat(kTop) ? splat(kNan) : value);
    }
  }

 private:
  [[gnu::always_inline]] static Acc flip(Acc bits) { return bits ^ ((bits < splat(I(0))) & splat(kHighest)); }
  [[gnu::always_inline]] static Acc saturated(Acc key) {
    if constexpr (kLargest == kTop) return key;
    const Acc below = key < splat(kLargest) ? key : splat(kLargest);
    return below > splat(I(~kLargest)) ? below : splat(I(~kLargest));
  }
};

template <bool kMax>
using OrderedFloat16 = Ordered<int16_t, 0x7c00, 0x7c00, 0x7e00, kMax>;
template <bool kMax>
using OrderedBfloat16 = Ordered<int16_t, 0x7f80, 0x7f80, 0x7fc0, kMax>;
template <bool kMax>
using OrderedFloat32 = Ordered<int32_t, 0x7f800000, 0x7f800000, 0x7fc00000, kMax>;
template <bool kMax>
using OrderedFloat64 = Ordered<int64_t, 0x7ff0000000000000, 0x7ff0000000000000, 0x7ff8000000000000, kMax>;
template <bool kMax>
using OrderedFloat8e4m3 = Ordered<int8_t, 0x7e, 0x7e, 0x7f, kMax>;
template <bool kMax>
using OrderedFloat8e5m2 = Ordered<int8_t, 0x7c, 0x7b, 0x7e, kMax>;

}  // namespace
}  // namespace twohop
