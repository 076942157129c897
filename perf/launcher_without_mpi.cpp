// The launcher's MPI part in a build without MPI: never reached, since mpi_available() says so.
#include "launcher.hpp"

namespace twohop::perf {

bool mpi_available() {
  return false;
}
void mpi_start(int*, char***, int*, int*) {}
twohopResult_t mpi_communicator(twohopComm_t*, const twohopConfig_t*) {
  return twohopInternalError;
}
void mpi_finish() {}
void mpi_abort(int) {}

}  // namespace twohop::perf
