// TWOHOP_HD: this function is compiled for the host and, by nvcc, for the GPU as well.
#pragma once

#ifdef __CUDACC__
#define TWOHOP_HD __host__ __device__
#else
#define TWOHOP_HD
#endif
