// See verbs_perf_mpi.hpp; built where there is no MPI.
#include "verbs_perf_mpi.hpp"

namespace twohop::verbs_perf {

bool MpiPair::started_by_mpirun() {
  return false;
}
MpiPair::MpiPair(int*, char***) {}
MpiPair::~MpiPair() = default;
void MpiPair::send_text(const std::string&) const {}
std::string MpiPair::receive_text() const {
  return "";
}

}  // namespace twohop::verbs_perf
