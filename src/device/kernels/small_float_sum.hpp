// Sums of small floats without scales, several times faster than by widening each value properly.
//
// Shifted so that its exponent field meets float32's, a small float *is* a float32, only 2^kExtraBias times too small,
// and its denormals are float32 denormals, which additions handle at full speed. Scaling by a power of two commutes
// with the rounding of additions (where the scaled sum is denormal, both are exact), so sums have the bits of sums of
// the true values. Rounding needs no case for denormals either. Only infinities and NaN do not fit: the caller must
// look for them (special()) and take the general format for blocks that hold any.
#pragma once

#include "device/kernels/formats.hpp"

namespace twohop {
namespace {

/// General: the SmallFloat it stands in for.
template <class General>
struct SmallFloatSum {
  using Acc = F32;
  using Lane = float;
  using Fallback = General;
  static constexpr int kBits = General::kBits;
  static constexpr int kParts = General::kParts;
  static constexpr int kShift = General::kExtraMant;  // from the place of the last mantissa bit to bit 0
  static constexpr uint32_t kSign = 0x80000000;
  static constexpr uint32_t kEachElement = kBits == 8 ? 0x01010101 : 0x00010001;  // times x: x in every element
  static constexpr uint32_t kSigns = kEachElement << (kBits - 1);

  [[gnu::always_inline]] static void load(const std::byte* p, Acc* acc) {
    constexpr uint32_t kKept = kSign | uint32_t(General::kMagMask) << kShift;
    const U32 lanes = twohop::load<U32>(p);
    for (int k = 0; k < kParts; ++k) {
      const I32 top = as<I32>(lanes << (32 - kBits * (k + 1)));
      acc[k] = as<F32>(as<U32>(top >> (32 - kBits - kShift)) & kKept);
    }
  }
  [[gnu::always_inline]] static void store(std::byte* p, const Acc* acc) {
    U32 lanes = rounded(acc[0]) >> kShift;
    for (int k = 1; k < kParts; ++k) {
      const U32 code = rounded(acc[k]);
      const U32 placed = kBits * k > kShift ? code << (kBits * k - kShift) : code >> (kShift - kBits * k);
      lanes = merge((1u << (kBits * k)) - 1, lanes, placed);
    }
    twohop::store(p, lanes);
  }

  /// so_far, with the sign bit set of each element that is infinite or NaN.
  [[gnu::always_inline]] static U32 special(const std::byte* p, U32 so_far) {
    constexpr uint32_t kToSign = kSigns - kEachElement * uint32_t(General::kFirstSpecial);
    return so_far | ((twohop::load<U32>(p) & ~kSigns) + kToSign);
  }

 private:
  // The code with its sign, last mantissa bit at kShift; rubbish below and above it.
  [[gnu::always_inline]] static U32 rounded(F32 x) {
    constexpr int32_t kLargest = int32_t(General::kLargestCode) << kShift;
    const U32 bits = as<U32>(x);
    const I32 magnitude = as<I32>(bits & ~kSign);
    const U32 mag = as<U32>(magnitude < kLargest ? magnitude : splat(kLargest));
    const U32 nearest = mag + ((1u << (kShift - 1)) - 1) + ((mag >> kShift) & 1u);
    return merge((1u << (kShift + kBits - 1)) - 1, nearest, as<U32>(as<I32>(bits) >> (32 - kBits - kShift)));
  }
};

}  // namespace
}  // namespace twohop
