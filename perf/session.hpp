// All ranks of one run: one communicator per scheme to be measured, and one apart from them to gather the figures with.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "launcher.hpp"
#include "nccl_baseline.hpp"
#include "perf_options.hpp"
#include "result_row.hpp"

namespace twohop::perf {

struct SchemeCommunicator {
  std::string name;
  twohopComm_t comm = nullptr;  // for a baseline too: its barriers and its counters, which stay 0
  Nccl::Comm nccl = nullptr;    // the baseline
};

class Session {
 public:
  /// Makes the communicators, in the same order on all ranks. Leaves the process with an explanation if one fails.
  Session(const Launcher& launcher, const PerfOptions& options);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  const std::vector<SchemeCommunicator>& schemes() const { return schemes_; }
  int rank() const { return launcher_.rank(); }
  int nranks() const { return launcher_.size(); }
  ClusterShape shape() const { return {nranks(), nnodes_}; }
  int node() const { return node_; }
  const Launcher& launcher() const { return launcher_; }

  /// `mine` of every rank, rank by rank.
  std::vector<double> gather(std::span<const double> mine) const;
  /// One all-reduce by a scheme; leaves with an explanation where it fails.
  void all_reduce(size_t scheme, const void* send, void* recv, size_t count, twohopDataType_t type, twohopRedOp_t op,
                  twohopStream_t stream) const;

  /// Registers the memory with the communicator of every scheme; leaves where one refuses. One handle for each.
  std::vector<void*> register_memory(void* memory, size_t bytes) const;
  void deregister_memory(const std::vector<void*>& handles) const;

  /// One line per rank: who runs where.
  std::string describe_ranks() const;

  /// Prints which call failed on this rank and why, and leaves with exit code 3, unless `result` is success.
  void require(twohopResult_t result, const char* call, twohopComm_t comm) const;

 private:
  twohopComm_t make(const std::string& algo, const PerfOptions& options) const;
  void add_nccl();
  void require_nccl(int result, const char* call) const;

  const Launcher& launcher_;
  std::vector<SchemeCommunicator> schemes_;
  std::optional<Nccl> nccl_;
  twohopComm_t control_ = nullptr;
  int nnodes_ = 1, node_ = 0, local_rank_ = 0;
};

}  // namespace twohop::perf
