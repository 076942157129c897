// Who started this process, which rank is it, and how do its communicators come about?
#pragma once

#include <string>
#include <variant>

#include "twohop/twohop.h"

namespace twohop::perf {

/// MPI when mpirun started the process, launcher variables when RANK and WORLD_SIZE are set, else one rank alone.
class Launcher {
 public:
  enum class Kind { kAlone, kEnvironment, kMpi };

  /// Starts MPI only under mpirun. The string is an error for the user.
  static std::variant<Launcher, std::string> start(int* argc, char*** argv);
  /// This process's rank as far as the variables tell, before anything is started: who prints usage errors.
  static bool may_be_rank0();

  int rank() const { return rank_; }
  int size() const { return size_; }
  Kind kind() const { return kind_; }
  const char* name() const;

  /// A further communicator over all ranks; called by all ranks in the same order.
  twohopResult_t make_communicator(twohopComm_t* comm, const twohopConfig_t* config) const;

  /// Ends MPI in order, if it was started.
  void finish() const;
  /// Leaves the process at once with `exit_code`, after an error. Never returns.
  [[noreturn]] void leave(int exit_code) const;

 private:
  Kind kind_ = Kind::kAlone;
  int rank_ = 0, size_ = 1;
};

/// The MPI part, in launcher_mpi.cpp where the build has MPI, else launcher_without_mpi.cpp.
bool mpi_available();
void mpi_start(int* argc, char*** argv, int* rank, int* size);
twohopResult_t mpi_communicator(twohopComm_t* comm, const twohopConfig_t* config);
void mpi_finish();
void mpi_abort(int exit_code);

}  // namespace twohop::perf
