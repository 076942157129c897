// See verbs_perf_mpi.hpp; built where there is an MPI.
#include "verbs_perf_mpi.hpp"

#include <mpi.h>

#include <array>
#include <cstdlib>

namespace twohop::verbs_perf {

bool MpiPair::started_by_mpirun() {
  return std::getenv("OMPI_COMM_WORLD_SIZE") || std::getenv("PMI_SIZE") || std::getenv("PMIX_RANK");
}

MpiPair::MpiPair(int* argc, char*** argv) {
  MPI_Init(argc, argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
  MPI_Comm_size(MPI_COMM_WORLD, &size_);
}

MpiPair::~MpiPair() {
  MPI_Finalize();
}

void MpiPair::send_text(const std::string& text) const {
  std::array<char, 256> buffer{};
  text.copy(buffer.data(), buffer.size() - 1);
  MPI_Send(buffer.data(), static_cast<int>(buffer.size()), MPI_CHAR, 0, 0, MPI_COMM_WORLD);
}

std::string MpiPair::receive_text() const {
  std::array<char, 256> buffer{};
  MPI_Recv(buffer.data(), static_cast<int>(buffer.size()), MPI_CHAR, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  buffer.back() = 0;
  return buffer.data();
}

}  // namespace twohop::verbs_perf
