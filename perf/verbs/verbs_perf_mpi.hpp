// The two ends as ranks of an MPI job: who is who, and how one tells the other its address.
#pragma once

#include <string>

namespace twohop::verbs_perf {

/// Without MPI in the build (verbs_perf_without_mpi.cpp) nothing is ever started by mpirun.
class MpiPair {
 public:
  static bool started_by_mpirun();

  MpiPair(int* argc, char*** argv);
  ~MpiPair();
  MpiPair(const MpiPair&) = delete;
  MpiPair& operator=(const MpiPair&) = delete;
  int rank() const { return rank_; }
  int size() const { return size_; }
  /// From rank 1 to rank 0; at most 255 characters.
  void send_text(const std::string& text) const;
  std::string receive_text() const;

 private:
  int rank_ = 0, size_ = 1;
};

}  // namespace twohop::verbs_perf
