// reduce_perf --device: the GPU's reduction of n sources, over all multiprocessors, beside a copy of as many bytes by
// the same GPU.
#pragma once

namespace twohop {

/// Prints a table. Exit code: 0; 1 a wrong sum or a CUDA error; 77 there is no GPU (why is printed).
int reduce_on_gpu();

}  // namespace twohop
