// What can a test ask of softnic beyond the verbs? Exported beside the libibverbs functions, as version SOFTNIC_1.0.
#ifndef SOFTNIC_H
#define SOFTNIC_H

#include <infiniband/verbs.h>

#ifdef __cplusplus
extern "C" {
#endif

// The value of a counter of the context's port, by its name in hw_counters or counters; -1: no such counter.
int64_t softnic_counter(struct ibv_context* context, const char* name);

// Takes the context's port down (0) or up (1) for all processes of the domain, or gives it back to the settings (-1).
void softnic_set_port(struct ibv_context* context, int up);

#ifdef __cplusplus
}
#endif
#endif
