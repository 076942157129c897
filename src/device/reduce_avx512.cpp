// The reduction kernels for AVX-512 (F, BW, VL, DQ); CMake sets this file's flags. Empty on other processors.
#include "device/reduce_types.hpp"

#if defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)
#include "device/kernels/kernel_table.hpp"

namespace twohop {

const KernelTable* avx512_kernels() {
  return &kKernels;
}

}  // namespace twohop
#else
namespace twohop {

const KernelTable* avx512_kernels() {
  return nullptr;
}

}  // namespace twohop
#endif
