// What a rank knows of its machine, and what follows for it among the ranks of the job: its GPU and rails, where its
// memory belongs, how many channels are worth having. Part of joining; see CommunicatorInit.
#pragma once

#include <atomic>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/options.hpp"
#include "collectives/exec/numa_binding.hpp"
#include "topology/cluster_rails.hpp"
#include "topology/rank_rails.hpp"
#include "transport/rail_plan.hpp"

namespace twohop {

/// This machine, and which GPU should use which port.
struct LocalTopology {
  topology::Machine machine;
  topology::Paths paths;
  topology::RailChoice choice;
  mutable std::atomic_flag told;  // its notes are in the log
};

/// The live machine; with TWOHOP_TOPO_FILE the file, as far as the machine does not contradict it. A file that cannot
/// be read is an error; a machine that cannot be read is an empty one. Read once per process and file.
Result<std::shared_ptr<const LocalTopology>> learn_topology(const Options& options);
/// Whether this process has read, or was given, the live machine; and giving it, which does nothing where it has.
bool knows_topology();
void know_topology(topology::Machine machine);

class JobTopology {
 public:
  using Json = nlohmann::json;

  static Result<JobTopology> learn(const Options& options, const std::string& machine_id);
  /// What the other ranks are told, and from all of it, by rank, this rank's place.
  Json message() const;
  Result<> settle(int rank, const std::vector<Json>& all);

  /// After settle():
  RailPlan rail_plan() const;
  /// Of the slowest rail, and of the slowest interface that sockets use, of any machine; 0 where one does not know.
  double rail_gbit_per_s() const { return rail_gbit_per_s_; }
  double socket_gbit_per_s() const { return socket_gbit_per_s_; }
  /// Of the rank's GPU or rail; none where TWOHOP_NUMA_BIND=0.
  NumaBinding binding() const;
  /// Says once per machine what was found, once per job how the machines differ, and writes TWOHOP_TOPO_DUMP_FILE.
  Result<> report() const;

 private:
  Result<> settle_checked(int rank, const std::vector<Json>& all);

  Options options_;
  std::shared_ptr<const LocalTopology> local_;
  std::string machine_id_;
  topology::RankPlace place_;
  topology::ClusterRails job_;
  size_t node_ = 0;  // of this rank's machine, in job_
  double rail_gbit_per_s_ = 0, socket_gbit_per_s_ = 0;
  int rank_ = 0, local_rank_ = 0;
};

}  // namespace twohop
