// CommunicatorInit: the steps by which a rank joins a job; see the .cpp.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "collectives/exec/bound_schedule.hpp"
#include "collectives/exec/communicator.hpp"
#include "collectives/exec/job_topology.hpp"

namespace twohop {

class CommunicatorInit {
 public:
  CommunicatorInit(const CommConfig& config, const Selection& selection, const Options& options, Deadline deadline);
  Result<std::unique_ptr<Communicator>> run(const twohopUniqueId& id, int nranks, int rank);

 private:
  using Json = nlohmann::json;

  Result<std::vector<Json>> share(const Result<Json>& mine);
  Json settings() const;
  std::string data_interface() const;
  Result<> learn_topology();
  Result<Json> own_introduction();
  Result<> introduce();
  Result<> compare_settings(int rank, const Json& first, const Json& theirs) const;
  std::vector<int> wanted_nodes() const;
  Result<> group_into_nodes();
  void choose_channels(int wanted);
  Result<> tune();
  Result<Json> own_tuning(const LayoutLimits& limits) const;
  Result<Json> try_grouping();
  std::vector<int> split(const std::vector<Json>& unreachable) const;
  WindowMap window_map() const;
  Result<> connect();
  Result<> connect_links();
  void start_watching();

  CommConfig config_;
  Options options_;
  Deadline deadline_;
  std::unique_ptr<Communicator> comm_;
  int rank_ = 0, nranks_ = 0;
  bool meets_on_loopback_ = false;
  int ranks_here_ = 0;  // on this machine, whatever virtual nodes it is cut into
  int64_t machines_ = 1;
  std::optional<JobTopology> topology_;
  std::optional<LocalExchange> exchange_;
  std::vector<std::string> hosts_, exchanges_;
  std::vector<Bytes> addresses_;
  std::vector<std::vector<int>> rails_;  // by rank: numbers of its own
  std::vector<LinkTable> tables_;        // of the node's ranks
};

}  // namespace twohop
