// The reduction kernels for AVX2 and F16C; CMake sets this file's flags. Empty on other processors.
#include "device/reduce_types.hpp"

#if defined(__AVX2__) && defined(__F16C__)
#include "device/kernels/kernel_table.hpp"

namespace twohop {

const KernelTable* avx2_kernels() {
  return &kKernels;
}

}  // namespace twohop
#else
namespace twohop {

const KernelTable* avx2_kernels() {
  return nullptr;
}

}  // namespace twohop
#endif
