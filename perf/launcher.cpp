// Reads the launchers' variables. (The library reads its own in src/base/options.cpp; these decide only whether
// MPI_Init is called, which the library must not do.)
#include "launcher.hpp"

#include <cstdio>
#include <cstdlib>
#include <thread>

namespace twohop::perf {
namespace {

bool under_mpirun() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK"})
    if (std::getenv(name)) return true;
  return false;
}

const char* first_set(std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (const char* value = std::getenv(name)) return value;
  return nullptr;
}

}  // namespace

bool Launcher::may_be_rank0() {
  const char* rank = first_set({"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "RANK"});
  return !rank || std::atoi(rank) == 0;
}

std::variant<Launcher, std::string> Launcher::start(int* argc, char*** argv) {
  Launcher launcher;
  const char *rank = std::getenv("RANK"), *world = std::getenv("WORLD_SIZE");
  if (under_mpirun() && mpi_available()) {
    launcher.kind_ = Kind::kMpi;
    mpi_start(argc, argv, &launcher.rank_, &launcher.size_);
  } else if (rank && world) {
    launcher.kind_ = Kind::kEnvironment;
    launcher.rank_ = std::atoi(rank);
    launcher.size_ = std::atoi(world);
  } else if (under_mpirun()) {
    return "started by mpirun, but built without MPI: install an MPI (libopenmpi-dev) and build again, or start the "
           "ranks with RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT set";
  } else if (rank || world) {
    return std::string(rank ? "RANK is set but WORLD_SIZE is not" : "WORLD_SIZE is set but RANK is not") +
           ": set both, or neither for one rank alone";
  }
  return launcher;
}

const char* Launcher::name() const {
  return kind_ == Kind::kMpi ? "mpi" : kind_ == Kind::kEnvironment ? "environment" : "alone";
}

twohopResult_t Launcher::make_communicator(twohopComm_t* comm, const twohopConfig_t* config) const {
  if (kind_ == Kind::kMpi) return mpi_communicator(comm, config);
  if (kind_ == Kind::kEnvironment) return twohopCommInitEnv(comm, config);
  twohopUniqueId id;
  twohopResult_t made = twohopGetUniqueId(&id);
  return made != twohopSuccess ? made : twohopCommInitRankConfig(comm, 1, id, 0, config);
}

void Launcher::finish() const {
  if (kind_ == Kind::kMpi) mpi_finish();
}

void Launcher::leave(int exit_code) const {
  std::fflush(nullptr);
  if (kind_ == Kind::kMpi) {
    // mpirun ends every rank as soon as one aborts: leave the others, which fail too, time to say why.
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    mpi_abort(exit_code);
  }
  std::_Exit(exit_code);
}

}  // namespace twohop::perf
