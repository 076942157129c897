// The launcher's MPI part: this file and twohop_mpi are the only users of MPI here.
#include <mpi.h>

#include "launcher.hpp"
#include "twohop/twohop_mpi.h"

namespace twohop::perf {

bool mpi_available() {
  return true;
}

void mpi_start(int* argc, char*** argv, int* rank, int* size) {
  MPI_Init(argc, argv);
  MPI_Comm_rank(MPI_COMM_WORLD, rank);
  MPI_Comm_size(MPI_COMM_WORLD, size);
}

twohopResult_t mpi_communicator(twohopComm_t* comm, const twohopConfig_t* config) {
  return twohopCommInitMpi(comm, MPI_COMM_WORLD, config);
}

void mpi_finish() {
  MPI_Finalize();
}

void mpi_abort(int exit_code) {
  MPI_Abort(MPI_COMM_WORLD, exit_code);
}

}  // namespace twohop::perf
