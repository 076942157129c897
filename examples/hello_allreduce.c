/* The smallest use of twohop: every rank gives its rank + 1, every rank gets the sum.
 *
 *   scripts/launch 4 --ranks-per-node 2 -- ./hello_allreduce        (or torchrun, or any launcher that sets RANK,
 *   WORLD_SIZE, MASTER_ADDR and MASTER_PORT)
 */
#include <stdio.h>

#include "twohop/twohop.h"

enum { kCount = 1000 };

static int fail(twohopComm_t comm) {
  fprintf(stderr, "hello_allreduce: %s\n", twohopGetLastError(comm));
  twohopCommDestroy(comm);
  return 1;
}

int main(void) {
  twohopComm_t comm = NULL;
  if (twohopCommInitEnv(&comm, NULL) != twohopSuccess) return fail(NULL);

  int rank = 0, nranks = 0;
  twohopShape_t shape;
  if (twohopCommUserRank(comm, &rank) != twohopSuccess || twohopCommCount(comm, &nranks) != twohopSuccess ||
      twohopCommShape(comm, &shape) != twohopSuccess)
    return fail(comm);

  float data[kCount];
  for (int i = 0; i < kCount; ++i) data[i] = (float)(rank + 1);
  if (twohopAllReduce(data, data, kCount, twohopFloat32, twohopSum, comm, NULL) != twohopSuccess) return fail(comm);

  float expected = (float)(nranks * (nranks + 1) / 2);
  int wrong = 0;
  for (int i = 0; i < kCount; ++i) wrong += data[i] != expected;
  printf("rank %d of %d, on node %d of %d: the sum is %g, %s\n", rank, nranks, shape.node, shape.nnodes, data[0],
         wrong ? "WRONG" : "as it should be");
  if (twohopCommDestroy(comm) != twohopSuccess) return fail(NULL);
  return wrong != 0;
}
