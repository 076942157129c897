// CommunicatorInit: the steps by which a rank joins a job; see the .cpp.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "collectives/exec/bound_schedule.hpp"
#include "collectives/exec/communicator.hpp"
#include "collectives/exec/init_messages.hpp"
#include "collectives/exec/job_topology.hpp"

namespace twohop {

class CommunicatorInit {
 public:
  CommunicatorInit(const CommConfig& config, const Selection& selection, const Options& options,
                   const Result<std::optional<int>>& gpu, Deadline deadline);
  Result<std::unique_ptr<Communicator>> run(const twohopUniqueId& id, int nranks, int rank);

 private:
  using Json = nlohmann::json;

  void end_phase(const char* name);
  Result<std::vector<Json>> share(const Result<Json>& mine);
  Json settings() const;
  std::string data_interface() const;
  Result<> learn_topology();
  Result<Json> own_introduction();
  Result<> introduce();
  std::vector<int> wanted_nodes() const;
  Result<> group_into_nodes();
  void choose_channels(int wanted);
  LayoutLimits limits_of(int channels) const;
  Result<> tune();
  Result<Json> own_tuning() const;
  Result<Json> try_grouping();
  std::vector<int> split(const std::vector<Json>& unreachable) const;
  Result<> connect();
  Result<> connect_links();
  Result<> while_listening(Result<> (CommunicatorInit::*step)());
  Result<> connect_all(Endpoint& endpoint, const std::function<std::byte*(size_t)>& inbox_of,
                       std::span<const Bytes> addresses);
  NodeMembers members() const;
  // Calls on GPU memory: communicator_init_gpu.cpp.
  Result<std::optional<GpuIntroduction>> introduce_gpu();
  void compare_gpus(std::vector<RankIntroduction>& introductions);
  Result<> set_up_gpus();
  Result<std::string> try_gpudirect();
  Result<bool> all_use_gpudirect();
  Error gdr_is_missing(int rank, const std::string& why);
  Result<> gather_gpu_memory();
  Result<> use_host_memory_unless(const Result<>& reached, GpuPlacement& placement);
  Result<std::shared_ptr<GpuNode>> make_gpu_node(const GpuPlacement& placement);
  Result<> divide_gpu_lanes();
  WindowMap gpu_windows() const;
  Result<> make_gpu_execution();
  Result<> connect_gpu_links();
  Result<> register_gpu_calls(Endpoint& endpoint, const GpuNode& node) const;
  bool has_gpus() const { return gpu_.runtime != nullptr; }
  void start_watching();

  CommConfig config_;
  Options options_;
  Result<std::optional<int>> own_gpu_;
  Deadline deadline_;
  std::unique_ptr<Communicator> comm_;
  int rank_ = 0, nranks_ = 0;
  bool meets_on_loopback_ = false;
  int ranks_here_ = 0;  // on this machine, whatever virtual nodes it is cut into
  int64_t machines_ = 1;
  std::chrono::steady_clock::time_point phase_began_{};
  std::string phases_;  // what each has taken, for the log
  std::optional<JobTopology> topology_;
  std::optional<LocalExchange> exchange_;
  std::vector<std::string> hosts_, exchanges_;
  std::vector<Bytes> addresses_;
  std::vector<std::vector<int>> rails_;  // by rank: numbers of its own
  std::vector<LinkTable> tables_;        // of the node's ranks
  int alarm_fd_ = -1;                    // readable when waiting for a connection is in vain
  GpuParts gpu_;                         // runtime is null where calls on GPU memory are not possible
  bool gdr_is_missing_ = false;          // and TWOHOP_REQUIRE_GDR=1
  int gpu_channels_ = 0;                 // that calls on GPUs want
  std::vector<std::string> gpu_identities_;
  std::vector<Bytes> gpu_addresses_;
};

}  // namespace twohop
