// Which ranks form a node? CommunicatorInit, second part: those of one host that can share memory; and the choices that
// follow from the grouping.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "base/log.hpp"
#include "collectives/exec/communicator_init.hpp"
#include "collectives/plan/memory_limits.hpp"

namespace twohop {

using Json = nlohmann::json;

/// Ranks of one host, cut into virtual nodes if asked for.
std::vector<int> CommunicatorInit::wanted_nodes() const {
  std::vector<int> key(nranks_);
  std::vector<std::string> names;
  std::vector<int> seen;
  for (int r = 0; r < nranks_; ++r) {
    const auto it = std::find(names.begin(), names.end(), hosts_[r]);
    const auto host = static_cast<size_t>(it - names.begin());
    if (it == names.end()) {
      names.push_back(hosts_[r]);
      seen.push_back(0);
    }
    const int part = config_.ranks_per_node > 0 ? seen[host] / config_.ranks_per_node : 0;
    ++seen[host];
    key[r] = static_cast<int>(host) * nranks_ + part;
  }
  return key;
}

/// 0 is as many as the network likes: the same on all ranks, since they have the same network and cluster.
void CommunicatorInit::choose_channels(int wanted) {
  constexpr int kOnOneNode = 2, kOfGpusOnOneNode = 16;
  const bool one_node = comm_->cluster_.nnodes() == 1;
  config_.nchannels = wanted;
  if (wanted == 0) config_.nchannels = one_node ? kOnOneNode : comm_->endpoint_->default_channels();
  // A channel keeps a core of the host busy, and a few of the hundreds of groups of threads that a GPU runs at once.
  gpu_channels_ = wanted == 0 && one_node ? kOfGpusOnOneNode : config_.nchannels;
}

LayoutLimits CommunicatorInit::limits_of(int channels) const {
  return memory_limits(comm_->cluster_, {static_cast<uint64_t>(options_.buff_bytes),
                                         static_cast<uint64_t>(options_.chunk_bytes), channels});
}

/// Groups by host; where handing memory over does not work, splits the group and tries again.
Result<> CommunicatorInit::group_into_nodes() {
  const int channels = config_.nchannels;
  std::vector<int> key = wanted_nodes();
  for (;;) {
    comm_->cluster_ = make_cluster(key);
    comm_->cluster_.rails = rails_by_index(comm_->cluster_, rails_);
    choose_channels(channels);
    if (auto tuned = tune(); !tuned) return tuned;
    auto mine = try_grouping();
    auto all = share(mine);
    if (!all) return all.error();
    bool complete = true;
    for (const Json& unreachable : *all) complete &= unreachable.empty();
    if (complete) return {};
    key = split(*all);
  }
}

/// Takes the table of choices that rank 0 has made for this grouping. It says which links are needed.
Result<> CommunicatorInit::tune() {
  comm_->limits_ = limits_of(config_.nchannels);
  auto all = share(own_tuning());
  if (!all) return all.error();
  const Json& text = (*all)[0];
  auto tuning = Tuning::create(comm_->selection_, text.is_string() ? text.get<std::string>() : "", comm_->cluster_,
                               comm_->limits_, static_cast<uint32_t>(options_.doorbell_batch));
  if (!tuning) return tuning.error();
  comm_->tuning_ = std::move(*tuning);
  return {};
}

/// Rank 0's, as text; nothing on the others.
Result<Json> CommunicatorInit::own_tuning() const {
  if (rank_ != 0) return Json("");
  TuningPlace place;
  place.cluster = &comm_->cluster_;
  place.limits = comm_->limits_;
  place.machines = machines_;
  place.cores = std::thread::hardware_concurrency();
  if (comm_->cluster_.nnodes() > 1) {
    place.net = comm_->endpoint_->name();
    // One machine alone, or an emulated device, has no wire that its NICs would speak of.
    if (machines_ > 1 && place.net == "tcp") place.rail_gbit_per_s = topology_->socket_gbit_per_s();
    // With TWOHOP_IB_HCA the ports are other ones than the topology would choose.
    if (machines_ > 1 && place.net == "verbs" && options_.ib_hca.empty())
      place.rail_gbit_per_s = topology_->rail_gbit_per_s();
    std::set<int> rails;
    for (int peer : comm_->cluster_.peers_of(rank_)) rails.insert(rails_[peer].begin(), rails_[peer].end());
    place.rails = static_cast<int64_t>(rails.size());
  }
  auto text = make_tuning(comm_->selection_, options_, place);
  if (!text) return text.error();
  return Json(*text);
}

Result<Json> CommunicatorInit::try_grouping() {
  const Cluster& cluster = comm_->cluster_;
  const auto& peers = cluster.peers_of(rank_);
  if (peers.size() > kMaxReduceSources)
    return make_error(twohopInvalidUsage, "{} ranks on one node; at most {} are supported: set TWOHOP_RANKS_PER_NODE",
                      peers.size(), kMaxReduceSources);
  tables_.clear();
  const auto algorithms = comm_->tuning_.reachable(cluster);
  for (int r : peers) tables_.push_back(links_of(algorithms, cluster, r, config_.nchannels));
  std::vector<LocalPeer> unreachable;
  auto node = NodeGroup::create(members(), window_map(cluster, comm_->limits_), *exchange_, comm_->control_->secret(),
                                deadline_, &unreachable);
  if (!node) return node.error();
  comm_->node_ = std::move(*node);
  bind_memory(comm_->binding_, comm_->node_->own_memory());
  Json failed = Json::array();
  for (const LocalPeer& p : unreachable) {
    log_warn("rank {} and rank {} share a host but not memory ({}): they are treated as separate nodes", rank_, p.rank,
             p.failure);
    failed.push_back(p.rank);
  }
  return failed;
}

/// Of this rank's node, once tables_ is filled in.
NodeMembers CommunicatorInit::members() const {
  NodeMembers members;
  members.me = rank_;
  members.ranks = comm_->cluster_.peers_of(rank_);
  for (size_t i = 0; i < members.ranks.size(); ++i) {
    members.exchanges.push_back(exchanges_[members.ranks[i]]);
    members.inboxes.push_back(tables_[i].in_inboxes());
  }
  return members;
}

/// First fit: a rank joins the first part of its old node all of whose ranks it could exchange memory with.
std::vector<int> CommunicatorInit::split(const std::vector<Json>& unreachable) const {
  auto apart = [&](int a, int b) {
    const auto has = [](const Json& list, int x) { return std::find(list.begin(), list.end(), Json(x)) != list.end(); };
    return has(unreachable[a], b) || has(unreachable[b], a);
  };
  std::vector<int> key(nranks_);
  for (const auto& ranks : comm_->cluster_.nodes) {
    std::vector<std::vector<int>> parts;
    for (int r : ranks) {
      auto fits = std::find_if(parts.begin(), parts.end(), [&](const auto& part) {
        return std::none_of(part.begin(), part.end(), [&](int other) { return apart(r, other); });
      });
      if (fits == parts.end()) fits = parts.emplace(parts.end());
      fits->push_back(r);
      key[r] = fits->front();
    }
  }
  return key;
}

}  // namespace twohop
