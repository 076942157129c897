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
#include "collectives/exec/host_topology.hpp"
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
                                   const Result<std::optional<int>>& gpu, Deadline deadline)
    : config_(config),
      options_(options),
      own_gpu_(gpu),
      deadline_(deadline),
      comm_(new Communicator(config, selection, options)) {}

Result<std::unique_ptr<Communicator>> CommunicatorInit::run(const twohopUniqueId& id, int nranks, int rank) {
  phase_began_ = std::chrono::steady_clock::now();
  auto control = Control::join(id, rank, nranks, deadline_);
  if (!control) return control.error();
  end_phase("rendezvous");
  comm_->control_ = std::move(*control);
  rank_ = rank;
  nranks_ = nranks;
  if (auto content = decode(id); content) meets_on_loopback_ = content->root.is_loopback();
  struct Phase {
    const char* name;
    Result<> (CommunicatorInit::*run)();
  };
  for (const Phase& phase : {Phase{"topology", &CommunicatorInit::learn_topology},
                             {"introduction", &CommunicatorInit::introduce},
                             {"shared memory", &CommunicatorInit::group_into_nodes},
                             {"links", &CommunicatorInit::connect},
                             {"GPUs", &CommunicatorInit::set_up_gpus}}) {
    if (auto done = (this->*phase.run)(); !done) return done.error();
    end_phase(phase.name);
  }
  start_watching();
  return std::move(comm_);
}

/// Notes how long the phase took that ends here; the next one begins.
void CommunicatorInit::end_phase(const char* name) {
  const auto now = std::chrono::steady_clock::now();
  const std::chrono::duration<double, std::milli> took = now - phase_began_;
  phases_ += fmt::format("{}{} {:.1f}", phases_.empty() ? "" : ", ", name, took.count());
  phase_began_ = now;
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
  auto exchange = LocalExchange::create();
  if (exchange) exchange_.emplace(std::move(*exchange));
  auto ranks =
      share(exchange_ ? Result<Json>(host_rank_message(options_, *exchange_)) : Result<Json>(exchange.error()));
  if (!ranks) return ranks.error();
  if (auto shared = share_topology_of_host(rank_, *ranks, options_, *exchange_, comm_->control_->secret(), deadline_);
      !shared)
    return shared;
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
  auto gpu = introduce_gpu();
  if (!gpu) return gpu.error();
  return write_introduction({host_identity(options_.host_id), host_identity(""), exchange_->name(),
                             comm_->endpoint_->address(), settings(), comm_->endpoint_->own_rails(), std::move(*gpu)});
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
    rails_.push_back(std::move(theirs.rails));
  }
  machines_ = static_cast<int64_t>(machines.size());
  return {};
}

Result<> CommunicatorInit::connect() {
  const Result<> connected = while_listening(&CommunicatorInit::connect_links);
  // Others may wait for this rank's connections, and not for its word yet.
  if (!connected) comm_->control_->announce(connected.error());
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
  if (comm_->endpoint_) comm_->idle_ = IdleEndpoint::watch(*comm_->endpoint_);
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
  log_info("rank {}: joined; milliseconds, waiting for others included: {}; {:.1f} MiB of windows and inboxes", rank_,
           phases_, static_cast<double>(comm->node_->own_memory().size()) / (1 << 20));
}

Result<std::unique_ptr<Communicator>> Communicator::init(const twohopUniqueId& id, int nranks, int rank,
                                                         const CommConfig& config, const Options& options,
                                                         const Result<std::optional<int>>& gpu) {
  const auto selection = Selection::parse(config.algo);
  if (!selection) return selection.error();
  const auto start = std::chrono::steady_clock::now();
  const Deadline deadline = start + std::chrono::seconds(options.init_timeout_s);
  auto comm = CommunicatorInit(config, *selection, options, gpu, deadline).run(id, nranks, rank);
  if (!comm) return comm;
  const std::chrono::nanoseconds took = std::chrono::steady_clock::now() - start;
  (*comm)->counters_.init_ns = static_cast<uint64_t>(took.count());
  return comm;
}

}  // namespace twohop
