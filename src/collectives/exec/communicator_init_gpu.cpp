// How do ranks come to run calls on their GPUs? When all have one: memory that the ranks of a node share, links of
// their own between nodes, lanes that fit. Every step ends in an exchange, and where one fails on any rank, all ranks
// go on without (or end, if TWOHOP_GPU=on): calls on host memory need none of it.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/log.hpp"
#include "collectives/exec/communicator_init.hpp"
#include "transport/transport.hpp"

namespace twohop {
namespace {

using Json = nlohmann::json;

/// Who copies between GPU memory and host memory, and why there is anything to copy.
std::string copies_text(const GpuExecution& gpu, bool wanted) {
  if (!gpu.copies_through_host())
    return fmt::format("no data goes through host memory, so that TWOHOP_USE_CUDA_MEMCPY={:d} changes nothing", wanted);
  return fmt::format("{} between GPU memory and {} in host memory (TWOHOP_USE_CUDA_MEMCPY={:d})",
                     wanted ? "a copy engine copies" : "the kernels copy",
                     gpu.node().placement().windows_on_gpu ? "what the network sends and receives" : "the windows",
                     wanted);
}

void warn_of_broken_cuda() {
  log_warn(
      "no GPU can be used: {}. Device memory, if the program has any, is taken for the host's, and a call on it ends "
      "in a segmentation fault; TWOHOP_GPU=off leaves this line out",
      cuda_status().why);
}

const char* network_text(const Endpoint* endpoint, const GpuPlacement& placement) {
  if (!endpoint) return "not needed";
  return placement.inboxes_on_gpu ? "by GPUDirect RDMA" : "through host memory";
}

}  // namespace

Result<std::optional<int>> Communicator::gpu_of_thread(const Options& options) {
  GpuRuntime* runtime = gpu_runtime();
  if (options.gpu == "off") return std::optional<int>();
  if (runtime) return runtime->current_device(options.gpu == "on");
  if (options.gpu == "on")
    return make_error(twohopInvalidUsage, "TWOHOP_GPU=on, and no GPU can be used: {}", cuda_status().why);
  if (cuda_status().broken) {
    [[maybe_unused]] static const bool said = (warn_of_broken_cuda(), true);
  }
  return std::optional<int>();
}

/// What the others need to know of it.
Result<std::optional<GpuIntroduction>> CommunicatorInit::introduce_gpu() {
  if (!own_gpu_) return own_gpu_.error();
  if (!*own_gpu_) return std::optional<GpuIntroduction>();
  const int device = **own_gpu_;
  auto identity = gpu_runtime()->device_identity(device);
  if (!identity) return identity.error();
  Options options = options_;
  options.socket_ifname = data_interface();
  auto endpoint = make_endpoint(rank_, options, comm_->control_->secret(), topology_->rail_plan());
  if (!endpoint) return endpoint.error();
  gpu_.runtime = gpu_runtime();
  gpu_.device = device;
  gpu_.endpoint = std::move(*endpoint);
  return std::optional(GpuIntroduction{*identity, gpu_.endpoint->address()});
}

/// Calls on GPU memory need a GPU on every rank.
void CommunicatorInit::compare_gpus(std::vector<RankIntroduction>& introductions) {
  int with = 0, without = -1;
  for (size_t r = 0; r < introductions.size(); ++r) {
    std::optional<GpuIntroduction>& gpu = introductions[r].gpu;
    if (!gpu) {
      without = without < 0 ? static_cast<int>(r) : without;
      continue;
    }
    ++with;
    gpu_identities_.push_back(std::move(gpu->identity));
    gpu_addresses_.push_back(std::move(gpu->address));
  }
  if (without < 0) return;
  gpu_ = GpuParts();
  comm_->why_no_gpu_ = fmt::format(
      "rank {} had no GPU when the communicator was made (it selects one by cudaSetDevice before, or TWOHOP_GPU=on)",
      without);
  if (with > 0) log_warn("rank {}: calls on GPU memory are off: {}", rank_, comm_->why_no_gpu_);
}

Result<> CommunicatorInit::set_up_gpus() {
  if (!has_gpus()) return {};
  gpu_.cluster = &comm_->cluster_;
  gpu_.rank = rank_;
  gpu_.tables = tables_;
  gpu_.algorithms = comm_->tuning_.reachable(comm_->cluster_);
  gpu_.host_channels = comm_->limits_.max_channels;
  gpu_.use_memcpy = options_.use_cuda_memcpy != 0;
  if (comm_->cluster_.nnodes() == 1) gpu_.endpoint.reset();
  for (auto step : {&CommunicatorInit::divide_gpu_lanes, &CommunicatorInit::gather_gpu_memory,
                    &CommunicatorInit::make_gpu_execution}) {
    auto done = (this->*step)();
    if (done) continue;
    if (options_.gpu == "on" || gdr_is_missing_) return done;
    comm_->why_no_gpu_ = "it could not be set up: " + done.error().message;
    log_warn("rank {}: calls on GPU memory are off: {}", rank_, done.error().message);
    comm_->gpu_.reset();
    gpu_ = GpuParts();
    return {};
  }
  return {};
}

/// How this rank's network reaches its GPU; the error has the reasons why it does not. Tried with as much memory as
/// calls will need: what a GPU shows to a NIC, and what a NIC can map, have bounds.
Result<std::string> CommunicatorInit::try_gpudirect() {
  const NodeMembers node = members();
  const size_t bytes = GpuNode::segment_bytes(gpu_windows(), {}, node.ranks.size(), node.inboxes[node.index_of(rank_)]);
  auto segment = gpu_.runtime->make_segment(gpu_.device, bytes);
  if (!segment) return segment.error();
  GpuRegion region{{(*segment)->data(), (*segment)->size()}, -1, ""};
  auto dmabuf = gpu_.runtime->dma_buf(gpu_.device, region.memory);
  if (dmabuf)
    region.dmabuf = dmabuf->get();
  else
    region.why_no_dmabuf = dmabuf.error().message;
  auto reached = gpu_.endpoint->register_gpu_memory(region, false);
  if (!reached) return reached;
  // What arrives in an inbox is passed on from there, and so read by all GPUs of the node.
  auto flush = gpu_.runtime->remote_writes_flush(gpu_.device, comm_->cluster_.peers_of(rank_).size() > 1);
  if (!flush) return flush.error();
  gpu_.flush = std::move(*flush);
  return reached;
}

/// What TWOHOP_REQUIRE_GDR=1 turns into an error of the join; what else fails does not.
Error CommunicatorInit::gdr_is_missing(int rank, const std::string& why) {
  gdr_is_missing_ = true;
  return make_error(twohopSystemError, "TWOHOP_REQUIRE_GDR=1, and rank {} has no GPUDirect RDMA: {}", rank, why);
}

/// All ranks or none: who puts must know where the inbox is, and one line says it for the job.
Result<bool> CommunicatorInit::all_use_gpudirect() {
  if (!gpu_.endpoint) return false;
  auto mine = try_gpudirect();
  auto all = share(write_gpudirect({mine.has_value(), mine ? *mine : mine.error().message}));
  if (!all) return all.error();
  for (int r = 0; r < nranks_; ++r) {
    auto theirs = read_gpudirect(r, (*all)[static_cast<size_t>(r)]);
    if (!theirs) return theirs.error();
    if (theirs->works) continue;
    if (options_.require_gdr != 0) return gdr_is_missing(r, theirs->text);
    if (rank_ == 0)
      log(gpu_.endpoint->name() == std::string("tcp") ? LogLevel::kInfo : LogLevel::kWarn,
          "GPUDirect RDMA is off, data between nodes goes through host memory: rank {}: {}", r, theirs->text);
    return false;
  }
  return true;
}

/// In the GPUs' memory where all GPUs of a node reach each other, else in the host's.
Result<> CommunicatorInit::gather_gpu_memory() {
  GpuPlacement placement;
  auto gpudirect = all_use_gpudirect();
  if (!gpudirect) return gpudirect.error();
  placement.inboxes_on_gpu = *gpudirect;
  // What NVML and CUDA say first: where they say no, mapping is not even tried.
  std::vector<std::string> peers;
  for (int r : comm_->cluster_.peers_of(rank_)) peers.push_back(gpu_identities_[static_cast<size_t>(r)]);
  auto reached = use_host_memory_unless(gpu_.runtime->check_peer_access(gpu_.device, peers), placement);
  if (!reached) return reached.error();
  Result<std::shared_ptr<GpuNode>> node = std::shared_ptr<GpuNode>();
  if (placement.windows_on_gpu) node = make_gpu_node(placement);
  reached = use_host_memory_unless(node ? Result<>() : Result<>(node.error()), placement);
  if (!reached) return reached.error();
  if (!placement.windows_on_gpu) node = make_gpu_node(placement);
  if (node) gpu_.node = std::move(*node);
  auto all = share(gpu_.node ? Result<Json>(Json(rank_)) : Result<Json>(node.error()));
  if (!all) return all.error();
  return {};
}

/// Where a rank of this node says that it does not reach the others' GPUs, their data goes through the host's memory,
/// and one line says why.
Result<> CommunicatorInit::use_host_memory_unless(const Result<>& reached, GpuPlacement& placement) {
  auto all = share(Json(reached ? "" : reached.error().message));
  if (!all) return all.error();
  for (int r = 0; r < nranks_; ++r) {
    auto failure = read_text(r, (*all)[static_cast<size_t>(r)]);
    if (!failure) return failure.error();
    if (failure->empty()) continue;
    if (gpu_.endpoint && options_.require_gdr != 0)
      return gdr_is_missing(r, "its node's GPUs exchange data through host memory: " + *failure);
    const int node = comm_->cluster_.node_of[rank_];
    if (comm_->cluster_.node_of[r] != node || !placement.windows_on_gpu) continue;
    placement = {.windows_on_gpu = false, .inboxes_on_gpu = false};
    if (comm_->cluster_.local_of[rank_] == 0)
      log_warn(
          "node {}: GPUs exchange data through pinned host memory, since they do not reach each other: rank {}: {}",
          node, r, *failure);
  }
  return {};
}

Result<std::shared_ptr<GpuNode>> CommunicatorInit::make_gpu_node(const GpuPlacement& placement) {
  auto made = GpuNode::create(*gpu_.runtime, gpu_.device, members(), gpu_windows(), placement, *exchange_,
                              comm_->control_->secret(), deadline_);
  if (!made) return made.error();
  return std::shared_ptr<GpuNode>(std::move(*made));
}

/// All lanes of all ranks of a GPU must be resident on it together: as many channels as fit everywhere.
Result<> CommunicatorInit::divide_gpu_lanes() {
  auto launcher = gpu_.runtime->make_launcher(gpu_.device);
  if (launcher) gpu_.launcher = std::move(*launcher);
  auto all = share(launcher ? Result<Json>(Json(gpu_.launcher->resident_lanes())) : Result<Json>(launcher.error()));
  if (!all) return all.error();
  const auto lanes_of_channel = static_cast<int64_t>(comm_->node_->map().lanes);
  int64_t channels = gpu_channels_;
  for (size_t r = 0; r < all->size(); ++r) {
    const auto sharing = std::count(gpu_identities_.begin(), gpu_identities_.end(), gpu_identities_[r]);
    auto lanes = read_count(static_cast<int>(r), (*all)[r]);
    if (!lanes) return lanes.error();
    channels = std::min(channels, int64_t{*lanes} / sharing / lanes_of_channel);
  }
  if (channels < 1)
    return make_error(twohopInvalidUsage, "a GPU of the job cannot keep the {} lanes of a channel resident",
                      lanes_of_channel);
  // Between nodes the links are those of the host's channels, whether calls on GPUs use all of them or not.
  gpu_.limits = comm_->cluster_.nnodes() == 1 ? limits_of(static_cast<int>(channels)) : comm_->limits_;
  gpu_.limits.max_channels = static_cast<int>(channels);
  return {};
}

WindowMap CommunicatorInit::gpu_windows() const {
  return comm_->cluster_.nnodes() == 1 ? window_map(comm_->cluster_, gpu_.limits) : comm_->node_->map();
}

Result<> CommunicatorInit::make_gpu_execution() {
  const GpuPlacement placement = gpu_.node->placement();
  gpu_.meeting = {members(),
                  comm_->control_->secret(),
                  std::make_shared<LocalExchange>(std::move(*exchange_)),
                  {comm_->node_.get(), comm_->cluster_.peers_of(rank_), config_.timeout_s,
                   [comm = comm_.get()] { return comm->failure(); }}};
  const int channels = gpu_.limits.max_channels;
  auto made = GpuExecution::create(std::move(gpu_));
  Result<> done;
  if (made) {
    comm_->gpu_ = std::move(*made);
    if (Endpoint* endpoint = comm_->gpu_->endpoint()) done = register_gpu_calls(*endpoint, comm_->gpu_->node());
  } else {
    done = made.error();
  }
  // Before anybody waits for the connections of a rank that will make none.
  if (auto all = share(done ? Result<Json>(Json(rank_)) : Result<Json>(done.error())); !all) return all.error();
  if (comm_->gpu_->endpoint()) done = while_listening(&CommunicatorInit::connect_gpu_links);
  if (done) done = comm_->gpu_->begin(comm_->gpu_hooks());
  if (!done) {  // others may wait for this rank's connections, or for its word on one
    comm_->control_->give_up(done.error());
    comm_->gpu_.reset();
  }
  if (auto all = share(done ? Result<Json>(Json(rank_)) : Result<Json>(done.error())); !all) return all.error();
  log_info("rank {}: GPU {}, {} channels, windows in {} memory, network {}", rank_, comm_->gpu_->device(), channels,
           placement.windows_on_gpu ? "GPU" : "host", network_text(comm_->gpu_->endpoint(), placement));
  log_info("rank {}: GPU {}: {}", rank_, comm_->gpu_->device(),
           copies_text(*comm_->gpu_, options_.use_cuda_memcpy != 0));
  return {};
}

/// What puts are sent from, and where they arrive.
Result<> CommunicatorInit::register_gpu_calls(Endpoint& endpoint, const GpuNode& node) const {
  if (node.placement().inboxes_on_gpu) {
    GpuRegion region{node.own_segment(), -1, ""};
    auto dmabuf = gpu_runtime()->dma_buf(comm_->gpu_->device(), region.memory);
    if (dmabuf) region.dmabuf = dmabuf->get();
    auto registered = endpoint.register_gpu_memory(region, true);
    if (!registered) return registered.error();
    log_info("rank {}: GPUDirect RDMA by {}", rank_, *registered);
    return {};
  }
  if (!node.placement().windows_on_gpu) return endpoint.register_memory(node.own_segment());
  for (std::span<std::byte> memory : {node.own_inboxes(), comm_->gpu_->staging()})
    if (!memory.empty())
      if (auto registered = endpoint.register_memory(memory); !registered) return registered;
  return {};
}

Result<> CommunicatorInit::connect_gpu_links() {
  Endpoint& endpoint = *comm_->gpu_->endpoint();
  const GpuNode& node = comm_->gpu_->node();
  return connect_all(
      endpoint, [&](size_t number) { return node.addresses().inbox(node.me(), number); }, gpu_addresses_);
}

}  // namespace twohop
