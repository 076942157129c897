/* Is twohop::mpi usable from the installed tree? Run by mpirun; each rank gives 1. */
#include <stdio.h>

#include "twohop/twohop_mpi.h"

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  twohopComm_t comm = NULL;
  int nranks = 0, sum = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &nranks);
  twohopResult_t result = twohopCommInitMpi(&comm, MPI_COMM_WORLD, NULL);
  if (result == twohopSuccess) result = twohopAllReduce(&sum, &sum, 1, twohopInt32, twohopSum, comm, NULL);
  if (result != twohopSuccess) fprintf(stderr, "mpi_consumer: %s\n", twohopGetLastError(comm));
  twohopCommDestroy(comm);
  MPI_Finalize();
  return result != twohopSuccess || sum != nranks;
}
