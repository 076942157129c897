// How does a rank join? Rendezvous, comparison of settings, grouping into nodes, windows, links. Every step ends in an
// exchange, so that a rank that fails tells the others why and none waits for it.
#include "collectives/exec/communicator_init.hpp"

#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "base/log.hpp"
#include "bootstrap/local_exchange.hpp"
#include "bootstrap/unique_id.hpp"
#include "collectives/exec/execution.hpp"
#include "collectives/exec/init_messages.hpp"
#include "transport/transport.hpp"

namespace twohop {
namespace {

using Json = nlohmann::json;

std::span<const std::byte> as_bytes(const std::string& s) {
  return std::as_bytes(std::span(s));
}

}  // namespace

CommunicatorInit::CommunicatorInit(const CommConfig& config, const Selection& selection, const Options& options,
                                   Deadline deadline)
    : config_(config), options_(options), deadline_(deadline), comm_(new Communicator(config, selection, options)) {}

Result<std::unique_ptr<Communicator>> CommunicatorInit::run(const twohopUniqueId& id, int nranks, int rank) {
  auto control = Control::join(id, rank, nranks, deadline_);
  if (!control) return control.error();
  comm_->control_ = std::move(*control);
  rank_ = rank;
  nranks_ = nranks;
  if (auto content = decode(id); content) meets_on_loopback_ = content->root.is_loopback();
  for (auto step : {&CommunicatorInit::learn_topology, &CommunicatorInit::introduce,
                    &CommunicatorInit::group_into_nodes, &CommunicatorInit::connect, &CommunicatorInit::set_up_gpus})
    if (auto done = (this->*step)(); !done) return done.error();
  start_watching();
  return std::move(comm_);
}

/// Gathers one JSON object of each rank. A rank whose own part failed sends its error instead, and all return that.
Result<std::vector<Json>> CommunicatorInit::share(const Result<Json>& mine) {
  auto all = comm_->control_->all_gather(as_bytes(write_init_message(mine)), deadline_);
  if (!mine) return mine.error();
  if (!all) return all.error();
  return read_init_messages(*all);
}

/// What must be the same on all ranks for their schedules to fit together.
Json CommunicatorInit::settings() const {
  return {{"library version", TWOHOP_VERSION_CODE},
          {"TWOHOP_ALGO", config_.algo},
          {"TWOHOP_NCHANNELS", config_.nchannels},
          {"TWOHOP_BUFFSIZE", options_.buff_bytes},
          {"TWOHOP_CHUNK_BYTES", options_.chunk_bytes},
          {"TWOHOP_RANKS_PER_NODE", config_.ranks_per_node},
          {"TWOHOP_NET", comm_->endpoint_->name()},
          {"TWOHOP_CHECK", options_.check},
          {"TWOHOP_GPU", options_.gpu},
          {"TWOHOP_REQUIRE_GDR", options_.require_gdr}};
}

/// Ranks that meet on a loopback address without a secret of the user's stay on it for their data too: what proves
/// membership is then no secret, and must not be asked for where others can connect.
std::string CommunicatorInit::data_interface() const {
  const bool only_here = meets_on_loopback_ && options_.job_secret.empty() && options_.socket_ifname.empty();
  return only_here ? "=lo" : options_.socket_ifname;
}

Result<> CommunicatorInit::learn_topology() {
  auto topology = JobTopology::learn(options_, host_identity(""));
  auto all = share(topology ? Result<Json>(topology->message()) : Result<Json>(topology.error()));
  if (!all) return all.error();
  topology_ = std::move(*topology);
  if (auto settled = topology_->settle(rank_, *all); !settled) return settled;
  comm_->binding_ = topology_->binding();
  return {};
}

Result<Json> CommunicatorInit::own_introduction() {
  if (auto told = topology_->report(); !told) return told.error();
  auto exchange = LocalExchange::create();
  if (!exchange) return exchange.error();
  exchange_.emplace(std::move(*exchange));
  Options options = options_;
  options.socket_ifname = data_interface();
  auto endpoint = make_endpoint(rank_, options, comm_->control_->secret(), topology_->rail_plan());
  if (!endpoint) return endpoint.error();
  comm_->endpoint_ = std::move(*endpoint);
  auto isa = choose_isa(options_.reduce_isa);
  if (!isa) return isa.error();
  comm_->isa_ = *isa;
  if (!options_.trace.empty()) {
    auto trace = Trace::open(options_.trace, rank_, comm_->name());
    if (!trace) return trace.error();
    comm_->trace_ = std::move(*trace);
  }
  RankIntroduction mine{host_identity(options_.host_id),
                        host_identity(""),
                        exchange_->name(),
                        comm_->endpoint_->address(),
                        settings(),
                        "",
                        {}};
  if (auto gpu = introduce_gpu(mine); !gpu) return gpu.error();
  return write_introduction(mine);
}

Result<> CommunicatorInit::introduce() {
  auto all = share(own_introduction());
  if (!all) return all.error();
  std::vector<RankIntroduction> ranks;
  for (int r = 0; r < nranks_; ++r) {
    auto theirs = read_introduction(r, all->at(r));
    if (!theirs) return theirs.error();
    ranks.push_back(std::move(*theirs));
    if (auto same = compare_settings(r, ranks.front().settings, ranks.back().settings); !same) return same;
  }
  std::set<std::string> machines;
  compare_gpus(ranks);
  for (RankIntroduction& theirs : ranks) {
    ranks_here_ += theirs.machine == ranks[rank_].machine;
    machines.insert(theirs.machine);
    hosts_.push_back(std::move(theirs.host));
    exchanges_.push_back(std::move(theirs.exchange));
    addresses_.push_back(std::move(theirs.address));
  }
  machines_ = static_cast<int64_t>(machines.size());
  return {};
}

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
  constexpr int kOnOneNode = 2;
  config_.nchannels = wanted;
  if (wanted == 0)
    config_.nchannels = comm_->cluster_.nnodes() == 1 ? kOnOneNode : comm_->endpoint_->default_channels();
}

/// Groups by host; where handing memory over does not work, splits the group and tries again.
Result<> CommunicatorInit::group_into_nodes() {
  const int channels = config_.nchannels;
  std::vector<int> key = wanted_nodes();
  for (;;) {
    comm_->cluster_ = make_cluster(key);
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
  const auto half = static_cast<uint64_t>(options_.buff_bytes) / 2;
  LayoutLimits limits;  // as connect() will find them, but for what pages and very small buffers make of them
  limits.window_bytes = half;
  limits.inbox_bytes = half / 4;
  limits.chunk_bytes = static_cast<uint64_t>(options_.chunk_bytes);
  limits.max_channels = config_.nchannels;
  auto all = share(own_tuning(limits));
  if (!all) return all.error();
  const Json& text = (*all)[0];
  auto tuning = Tuning::create(comm_->selection_, text.is_string() ? text.get<std::string>() : "", comm_->cluster_,
                               limits, static_cast<uint32_t>(options_.doorbell_batch));
  if (!tuning) return tuning.error();
  comm_->tuning_ = std::move(*tuning);
  return {};
}

/// Rank 0's, as text; nothing on the others.
Result<Json> CommunicatorInit::own_tuning(const LayoutLimits& limits) const {
  if (rank_ != 0) return Json("");
  TuningPlace place;
  place.cluster = &comm_->cluster_;
  place.limits = limits;
  place.machines = machines_;
  place.cores = std::thread::hardware_concurrency();
  if (comm_->cluster_.nnodes() > 1) {
    place.net = comm_->endpoint_->name();
    place.rails = static_cast<int64_t>(comm_->endpoint_->counters().rails);
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
  auto node =
      NodeGroup::create(members(), window_map(), *exchange_, comm_->control_->secret(), deadline_, &unreachable);
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
    members.in_links.push_back(tables_[i].in.size());
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

Result<> CommunicatorInit::connect() {
  const WindowMap map = comm_->node_->map();
  comm_->limits_.window_bytes = map.window_bytes;
  comm_->limits_.inbox_bytes = map.inbox_bytes;
  comm_->limits_.chunk_bytes = static_cast<uint64_t>(options_.chunk_bytes);
  comm_->limits_.max_channels = config_.nchannels;
  const Result<> connected = connect_links();
  auto all = share(connected ? Result<Json>(Json(rank_)) : Result<Json>(connected.error()));
  if (!all) return all.error();
  ExecutionContext context;
  context.cluster = &comm_->cluster_;
  context.rank = rank_;
  context.node = comm_->node_.get();
  context.endpoint = comm_->endpoint_.get();
  context.tables = tables_;
  context.registrations = &comm_->registrations_;
  context.limits = comm_->limits_;
  context.isa = comm_->isa_;
  context.trace = comm_->trace_.get();
  if (context.trace && context.endpoint) {
    const LinkTable& mine = context.tables[context.node->me()];
    context.trace->watch_links(context.endpoint, mine.out.size(), mine.in.size());
  }
  comm_->execution_ = std::make_unique<Execution>(std::move(context));
  return {};
}

void CommunicatorInit::start_watching() {
  const int local = comm_->node_->size();
  const unsigned cores = std::thread::hardware_concurrency();
  comm_->spin_polls_ = ranks_here_ <= static_cast<int>(cores) ? static_cast<int>(options_.spin) : 1;
  Communicator* comm = comm_.get();
  comm->control_->watch([comm](const Error& e) { comm->record_failure(e); }, [comm] { return comm->standing(); });
  const Cluster& c = comm->cluster_;
  log_info("{}rank {} of {}: node {} of {}, local rank {} of {}, {} channels, {} kernels, network {}",
           comm->name().empty() ? "" : comm->name() + ": ", rank_, nranks_, c.node_of[rank_], c.nnodes(),
           c.local_of[rank_], local, config_.nchannels, isa_name(comm->isa_),
           comm->endpoint_ ? comm->endpoint_->name() : "not needed");
}

Result<std::unique_ptr<Communicator>> Communicator::init(const twohopUniqueId& id, int nranks, int rank,
                                                         const CommConfig& config, const Options& options) {
  const auto selection = Selection::parse(config.algo);
  if (!selection) return selection.error();
  const auto start = std::chrono::steady_clock::now();
  const Deadline deadline = start + std::chrono::seconds(options.init_timeout_s);
  auto comm = CommunicatorInit(config, *selection, options, deadline).run(id, nranks, rank);
  if (!comm) return comm;
  const std::chrono::nanoseconds took = std::chrono::steady_clock::now() - start;
  (*comm)->counters_.init_ns = static_cast<uint64_t>(took.count());
  return comm;
}

}  // namespace twohop
