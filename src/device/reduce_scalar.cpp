// The reduction kernels for the baseline that every CPU of the target has: on x86-64 that is SSE2.
#include "device/kernels/kernel_table.hpp"

namespace twohop {

const KernelTable* scalar_kernels() {
  return &kKernels;
}

}  // namespace twohop
