// The instruction set that this file is being compiled for. Each isa_*.hpp has
//
//   kVectorBytes
//   load_first(p, bytes)         less than a vector, more than nothing, zeros behind; nothing else is touched
//   store_first(p, v, bytes)     likewise
//   merge(mask, a, b)            bits of a where mask is 1, of b where it is 0
//   high_halves(low, high)       each 32-bit lane: high half of `low` in the low place, of `high` in the high one
//   low_halves(low, high)        likewise their low halves
//   increment_above_half(v, x)   v + 1 where x > 0x8000, unsigned
//   any(v, mask)                 whether any bit of v & mask is set
//   any_nan(a, b[, c, d])        whether any lane of any of them is NaN
//
// and those of AVX2 and AVX-512 have widen_float16(p) and narrow_float16(p, x): half a vector to and from float32.
#pragma once

#if defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)
#include "device/kernels/isa_avx512.hpp"
#elif defined(__AVX2__) && defined(__F16C__)
#include "device/kernels/isa_avx2.hpp"
#elif defined(__SSE2__)
#include "device/kernels/isa_sse2.hpp"
#else
#include "device/kernels/isa_portable.hpp"
#endif
