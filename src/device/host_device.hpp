// TWOHOP_HD: this function is compiled for the host and, by nvcc, for the GPU as well. TWOHOP_UNROLL: the loop that
// follows has a constant number of turns and works on registers, so it must be unrolled on the GPU.
#pragma once

#ifdef __CUDACC__
#define TWOHOP_HD __host__ __device__
#define TWOHOP_UNROLL _Pragma("unroll")
#else
#define TWOHOP_HD
#define TWOHOP_UNROLL
#endif
