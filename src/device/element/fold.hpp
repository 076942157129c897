// What `a op b` and `scale * a` mean for one accumulator. The left operand is the lower source.
#pragma once

#include "device/element/element.hpp"

namespace twohop::element {

template <MathOp kOp, class E>
struct Fold {
  using Acc = typename E::Acc;

  TWOHOP_HD static Acc fold(Acc a, Acc b) {
    if constexpr (kOp == MathOp::kMax || kOp == MathOp::kMin) {
      if constexpr (E::kFloating)
        return extreme_float(a, b);
      else
        return (kOp == MathOp::kMax) == (a > b) ? a : b;
    } else if constexpr (E::kFloating) {
      return kOp == MathOp::kSum ? a + b : a * b;
    } else {
      // Promoted to unsigned, so that not even products of 16 bits could overflow an int.
      using U = typename E::Wrapping;
      const uint64_t x = static_cast<U>(a), y = static_cast<U>(b);
      return static_cast<Acc>(static_cast<U>(kOp == MathOp::kSum ? x + y : x * y));
    }
  }

  TWOHOP_HD static Acc scaled(Acc x, Acc by) { return Fold<MathOp::kProd, E>::fold(x, by); }

 private:
  /// NaN loses, -0 < +0.
  TWOHOP_HD static Acc extreme_float(Acc a, Acc b) {
    constexpr bool kMax = kOp == MathOp::kMax;
    if (a == b) return tie<kMax>(a, b);  // the same bits, or zeros whose signs decide
    if (!(a == a)) return b;
    if (!(b == b)) return a;
    return kMax == (a > b) ? a : b;
  }
  template <bool kMax>
  TWOHOP_HD static Acc tie(Acc a, Acc b) {
    if constexpr (sizeof(Acc) == 4) {
      const auto x = bits_as<uint32_t>(a), y = bits_as<uint32_t>(b);
      return bits_as<Acc>(kMax ? x & y : x | y);
    } else {
      const auto x = bits_as<uint64_t>(a), y = bits_as<uint64_t>(b);
      return bits_as<Acc>(kMax ? x & y : x | y);
    }
  }
};

}  // namespace twohop::element
