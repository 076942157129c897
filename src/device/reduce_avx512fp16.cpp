// The reduction kernels for AVX-512 with float16 arithmetic; CMake sets this file's flags. Empty on other processors
// and where the compiler does not know those instructions.
#include "device/reduce_types.hpp"

#if defined(__AVX512FP16__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)
#include "device/kernels/kernel_table.hpp"

namespace twohop {

const KernelTable* avx512fp16_kernels() {
  return &kKernels;
}

}  // namespace twohop
#else
namespace twohop {

const KernelTable* avx512fp16_kernels() {
  return nullptr;
}

}  // namespace twohop
#endif
