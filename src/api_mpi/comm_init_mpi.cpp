// How do the ranks of an MPI communicator become the ranks of one of ours? MPI carries the unique id; no more.
#include <algorithm>
#include <cstring>
#include <string>

#include "api/internal.h"
#include "twohop/twohop_mpi.h"

namespace {

constexpr char kFunction[] = "twohopCommInitMpi";

/// Rank 0's id, or why there is none: the same on all ranks.
struct Announcement {
  int32_t result = twohopSuccess;
  char text[1020] = {};
  twohopUniqueId id{};
};
static_assert(sizeof(Announcement) == 1024 + sizeof(twohopUniqueId));

twohopResult_t refuse(twohopResult_t code, const std::string& text) {
  twohopReportInternal(kFunction, code, text.c_str());
  return code;
}

twohopResult_t mpi_failed(const char* what, int mpi_error) {
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(mpi_error, text, &length);
  return refuse(twohopSystemError, std::string(what) + " failed: " + text);
}

/// What can be wrong before the ranks can talk about it.
twohopResult_t check_mpi(MPI_Comm mpi_comm) {
  int initialized = 0, finalized = 0, inter = 0;
  MPI_Initialized(&initialized);
  if (!initialized) return refuse(twohopInvalidUsage, "MPI is not initialised: call MPI_Init first");
  MPI_Finalized(&finalized);
  if (finalized) return refuse(twohopInvalidUsage, "MPI is finalised: make communicators before MPI_Finalize");
  if (mpi_comm == MPI_COMM_NULL)
    return refuse(twohopInvalidArgument, "mpi_comm is MPI_COMM_NULL: give a communicator that this process is in");
  if (int error = MPI_Comm_test_inter(mpi_comm, &inter)) return mpi_failed("MPI_Comm_test_inter", error);
  if (inter)
    return refuse(twohopInvalidArgument, "mpi_comm is an intercommunicator: merge it, or give one of its groups");
  return twohopSuccess;
}

/// Agrees on whether all ranks' arguments are good, so that none waits for one that gave up.
twohopResult_t check_arguments(twohopComm_t* comm, MPI_Comm mpi_comm, const twohopConfig_t* config) {
  const twohopResult_t mine = twohopCheckInitInternal(kFunction, comm, config);
  int bad = mine != twohopSuccess, any_bad = 0;
  if (int error = MPI_Allreduce(&bad, &any_bad, 1, MPI_INT, MPI_MAX, mpi_comm))
    return mpi_failed("MPI_Allreduce", error);
  if (mine != twohopSuccess || !any_bad) return mine;
  return refuse(twohopRemoteError, "the arguments or variables of another rank were refused: its error says why");
}

Announcement make_announcement() {
  Announcement a;
  a.result = twohopGetUniqueId(&a.id);
  if (a.result == twohopSuccess) return a;
  const char* text = twohopGetLastError(nullptr);
  std::memcpy(a.text, text, std::min(std::strlen(text), sizeof a.text - 1));
  return a;
}

twohopResult_t init_mpi(twohopComm_t* comm, MPI_Comm mpi_comm, const twohopConfig_t* config) {
  if (twohopResult_t result = check_mpi(mpi_comm)) return result;
  if (twohopResult_t result = check_arguments(comm, mpi_comm, config)) return result;
  int rank = 0, nranks = 0;
  MPI_Comm_rank(mpi_comm, &rank);
  MPI_Comm_size(mpi_comm, &nranks);
  Announcement announcement;
  if (rank == 0) announcement = make_announcement();
  if (int error = MPI_Bcast(&announcement, sizeof announcement, MPI_BYTE, 0, mpi_comm))
    return mpi_failed("MPI_Bcast", error);
  if (announcement.result != twohopSuccess)
    return refuse(static_cast<twohopResult_t>(announcement.result), std::string("rank 0: ") + announcement.text);
  return twohopCommInitRankConfig(comm, nranks, announcement.id, rank, config);
}

}  // namespace

twohopResult_t twohopCommInitMpi(twohopComm_t* comm, MPI_Comm mpi_comm, const twohopConfig_t* config) {
  try {
    return init_mpi(comm, mpi_comm, config);
  } catch (...) {
    return refuse(twohopSystemError, "out of memory");
  }
}
