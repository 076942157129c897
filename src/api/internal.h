// What twohop_mpi, a library of its own, needs of the core beyond the public API. Not installed; no promise.
#pragma once

#include "twohop/twohop.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Keeps `text` as the calling thread's last error.
TWOHOP_API void twohopReportInternal(const char* function, twohopResult_t code, const char* text);
/// Would twohopCommInitRankConfig accept this place for a handle and this configuration? Joins nothing.
TWOHOP_API twohopResult_t twohopCheckInitInternal(const char* function, twohopComm_t* comm,
                                                  const twohopConfig_t* config);

#ifdef __cplusplus
}
#endif
