/* twohop for programs that have MPI: a communicator over the ranks of an MPI communicator. In a library of its own
 * (-ltwohop_mpi), so that libtwohop needs no MPI.
 */
#ifndef TWOHOP_TWOHOP_MPI_H_
#define TWOHOP_TWOHOP_MPI_H_

#include <mpi.h>

#include "twohop/twohop.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Joins as the calling process's rank in `mpi_comm`; collective over it. config NULL means defaults, and is read during
 * the call only. MPI carries the unique id and is not used afterwards: MPI_Finalize may come before twohopCommDestroy.
 * Inside a twohop group the MPI part is done at once, and twohopGroupEnd joins.
 * Errors: twohopInvalidUsage (MPI is not initialised, or finalised), twohopInvalidArgument (mpi_comm is null or an
 * intercommunicator, comm, config), twohopRemoteError (another rank's arguments were refused), and those of
 * twohopCommInitRank. An error of rank 0 in making the id is returned by all ranks. */
TWOHOP_API twohopResult_t twohopCommInitMpi(twohopComm_t* comm, MPI_Comm mpi_comm, const twohopConfig_t* config);

#ifdef __cplusplus
}
#endif
#endif /* TWOHOP_TWOHOP_MPI_H_ */
