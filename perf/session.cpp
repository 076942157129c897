// Making and using the communicators of a run.
#include "session.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstring>

namespace twohop::perf {

Session::Session(const Launcher& launcher, const PerfOptions& options) : launcher_(launcher) {
  control_ = make("auto", options);
  for (const auto& scheme : options.schemes) schemes_.push_back({scheme, make(scheme, options)});
  twohopShape_t shape{};
  require(twohopCommShape(control_, &shape), "twohopCommShape", control_);
  nnodes_ = shape.nnodes;
  node_ = shape.node;
  local_rank_ = shape.local_rank;
  if (options.baseline == "nccl") add_nccl();
}

void Session::add_nccl() {
  const auto give_up = [&](const std::string& why) {
    if (rank() == 0) fmt::print(stderr, "allreduce_perf: --baseline nccl: {}\n", why);
    launcher_.leave(2);
  };
  if (nnodes_ > 1) give_up("the ranks must be on one node");
  auto loaded = Nccl::load();
  if (auto* why = std::get_if<std::string>(&loaded)) give_up(*why);
  nccl_ = std::get<Nccl>(loaded);
  Nccl::UniqueId id{};
  if (rank() == 0) require_nccl(nccl_->unique_id(&id), "ncclGetUniqueId");
  require(twohopBroadcast(&id, &id, sizeof id, twohopUint8, 0, control_, nullptr), "twohopBroadcast", control_);
  SchemeCommunicator baseline{"nccl", control_, nullptr};
  require_nccl(nccl_->init(&baseline.nccl, nranks(), id, rank()), "ncclCommInitRank");
  schemes_.push_back(baseline);
}

void Session::require_nccl(int result, const char* call) const {
  if (result == 0) return;
  fmt::print(stderr, "allreduce_perf: rank {} of {}: {}: {}\n", rank(), nranks(), call, nccl_->text(result));
  launcher_.leave(3);
}

void Session::all_reduce(size_t scheme, const void* send, void* recv, size_t count, twohopDataType_t type,
                         twohopRedOp_t op, twohopStream_t stream) const {
  const SchemeCommunicator& s = schemes_[scheme];
  if (s.nccl)
    require_nccl(nccl_->all_reduce(send, recv, count, type, op, s.nccl, stream), "ncclAllReduce");
  else
    require(twohopAllReduce(send, recv, count, type, op, s.comm, stream), "twohopAllReduce", s.comm);
}

std::vector<void*> Session::register_memory(void* memory, size_t bytes) const {
  std::vector<void*> handles;
  for (const auto& scheme : schemes_)
    require(twohopCommRegister(scheme.comm, memory, bytes, &handles.emplace_back()), "twohopCommRegister", scheme.comm);
  return handles;
}

void Session::deregister_memory(const std::vector<void*>& handles) const {
  for (size_t s = 0; s < handles.size(); ++s)
    require(twohopCommDeregister(schemes_[s].comm, handles[s]), "twohopCommDeregister", schemes_[s].comm);
}

Session::~Session() {
  // Nobody leaves while another rank may still be sending to it.
  require(twohopBarrier(control_, nullptr), "twohopBarrier", control_);
  for (auto& scheme : schemes_)
    if (scheme.nccl)
      nccl_->destroy(scheme.nccl);
    else
      (void)twohopCommDestroy(scheme.comm);
  (void)twohopCommDestroy(control_);
}

twohopComm_t Session::make(const std::string& algo, const PerfOptions& options) const {
  twohopConfig_t config = TWOHOP_CONFIG_INITIALIZER;
  config.algo = algo == "auto" ? nullptr : algo.c_str();  // auto: TWOHOP_ALGO may say more
  config.ranks_per_node = options.ranks_per_node;
  config.timeout_s = options.timeout_s;
  twohopComm_t comm = nullptr;
  require(launcher_.make_communicator(&comm, &config), "making the communicator", nullptr);
  return comm;
}

std::vector<double> Session::gather(std::span<const double> mine) const {
  std::vector<double> all(mine.size() * static_cast<size_t>(nranks()));
  require(twohopAllGather(mine.data(), all.data(), mine.size(), twohopFloat64, control_, nullptr), "twohopAllGather",
          control_);
  return all;
}

std::string Session::describe_ranks() const {
  struct Rank {
    int32_t pid, node, local_rank;
    char host[52];
  } mine{getpid(), node_, local_rank_, {}};
  gethostname(mine.host, sizeof mine.host - 1);
  std::vector<Rank> all(static_cast<size_t>(nranks()));
  require(twohopAllGather(&mine, all.data(), sizeof mine, twohopUint8, control_, nullptr), "twohopAllGather", control_);
  std::string text;
  for (size_t r = 0; r < all.size(); ++r)
    text += fmt::format("#  Rank {:2} Group  0 Pid {:6} on {:>10} node {:2} local rank {:2}\n", r, all[r].pid,
                        all[r].host, all[r].node, all[r].local_rank);
  return text;
}

void Session::require(twohopResult_t result, const char* call, twohopComm_t comm) const {
  if (result == twohopSuccess) return;
  std::string why = twohopGetLastError(comm);
  // Before the library has read RANK nobody has checked that it is a number.
  bool known = control_ || launcher_.kind() == Launcher::Kind::kMpi;
  std::string who = known ? fmt::format("rank {} of {}: ", rank(), nranks()) : "";
  fmt::print(stderr, "allreduce_perf: {}{}: {}{}{}\n", who, call, twohopGetErrorString(result), why.empty() ? "" : ": ",
             why);
  launcher_.leave(3);
}

}  // namespace twohop::perf
