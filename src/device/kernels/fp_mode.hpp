// The floating-point mode that kernels run in: nearest-even, denormals kept, no traps, whatever the calling thread has
// set (a program linked with -ffast-math flushes denormals), since all ranks must get the same bits.
#pragma once

namespace twohop {
namespace {

#if defined(__SSE2__)
class DefaultFpMode {
 public:
  DefaultFpMode() : saved_(__builtin_ia32_stmxcsr()) {
    if ((saved_ & kControlBits) != kDefault) __builtin_ia32_ldmxcsr(kDefault);
  }
  ~DefaultFpMode() {
    if ((saved_ & kControlBits) != kDefault) __builtin_ia32_ldmxcsr(saved_);
  }
  DefaultFpMode(const DefaultFpMode&) = delete;
  DefaultFpMode& operator=(const DefaultFpMode&) = delete;

 private:
  static constexpr unsigned kControlBits = 0xffc0;  // flush to zero, rounding, exception masks, denormals are zero
  static constexpr unsigned kDefault = 0x1f80;      // all exceptions masked, nothing else
  unsigned saved_;
};
#else
struct DefaultFpMode {
  ~DefaultFpMode() {}  // not trivial, so that an unused guard does not warn
};
#endif

}  // namespace
}  // namespace twohop
