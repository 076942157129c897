// See gpu_execution.hpp.
#include "collectives/exec/gpu/gpu_execution.hpp"

#include <algorithm>
#include <utility>

#include "base/check.hpp"
#include "collectives/exec/loop/loop_arguments.hpp"
#include "collectives/plan/direct.hpp"
#include "collectives/plan/layout.hpp"

namespace twohop {
namespace {

constexpr size_t kQueueEntries = 256;

/// Pieces of one block of zeroed memory, one after the other on cache lines of their own.
class Carver {
 public:
  explicit Carver(std::byte* base) : base_(base) {}
  template <class T>
  T* take(size_t count) {
    auto* at = reinterpret_cast<T*>(base_ + used_);
    used_ += (count * sizeof(T) + 127) / 128 * 128;
    return at;
  }
  size_t used() const { return used_; }

 private:
  std::byte* base_;
  size_t used_ = 0;
};

/// The kernels' own: private to this rank's GPU.
struct OnGpu {
  OnGpu(Carver& c, size_t locals, size_t out, size_t in)
      : state(c.take<LoopState>(1)),
        tickets(c.take<uint64_t>(1)),
        out_links(c.take<LoopLink>(out)),
        in_links(c.take<LoopLink>(in)),
        boards(c.take<std::byte*>(locals)),
        boards_of_me(c.take<std::byte*>(locals)) {}
  LoopState* state;
  uint64_t* tickets;
  LoopLink *out_links, *in_links;
  std::byte **boards, **boards_of_me;
};

/// What the CPU writes and kernels poll, and the other way round.
struct OnHost {
  OnHost(Carver& c, size_t out, size_t in, size_t staging_bytes)
      : report(c.take<LoopReport>(1)),
        taken(c.take<uint64_t>(1)),
        entries(c.take<PutEntry>(kQueueEntries)),
        out_words(c.take<LoopLinkWords>(out)),
        in_words(c.take<LoopLinkWords>(in)),
        staging(c.take<std::byte>(staging_bytes)) {}
  LoopReport* report;
  uint64_t* taken;
  PutEntry* entries;
  LoopLinkWords *out_words, *in_words;
  std::byte* staging;
};

}  // namespace

/// Memory that the last graph has let go of. It does so in a callback that must not call CUDA, so the memory is freed
/// by the next thread that comes by.
class GpuExecution::Parked {
 public:
  static Parked& of_process() {
    static Parked& parked = *new Parked;
    return parked;
  }
  void add(std::shared_ptr<Memory> memory) {
    const std::lock_guard lock(mutex_);
    memory_.push_back(std::move(memory));
  }
  void free() {
    std::vector<std::shared_ptr<Memory>> freed;
    const std::lock_guard lock(mutex_);
    freed.swap(memory_);
  }

 private:
  std::mutex mutex_;
  std::vector<std::shared_ptr<Memory>> memory_;
};

struct GpuExecution::Memory {
  std::shared_ptr<GpuNode> node;
  std::unique_ptr<GpuMemory> on_gpu, on_host;
  ScheduleMemory schedules;
  std::shared_ptr<GpuRegions> regions;
  std::atomic<int> graphs{0};
};

Result<std::unique_ptr<GpuExecution>> GpuExecution::create(GpuParts parts) {
  Parked::of_process().free();
  std::unique_ptr<GpuExecution> made(new GpuExecution(std::move(parts)));
  if (auto ok = made->make_memory(); !ok) return ok.error();
  if (auto ok = made->make_copy_engine(); !ok) return ok.error();
  return Result<std::unique_ptr<GpuExecution>>(std::move(made));
}

Result<> GpuExecution::begin(GpuProgress::Hooks hooks) {
  GpuProgress::Shared shared;
  shared.report = fixed_.report;
  shared.graphs = &memory_->graphs;
  shared.launched = &launched_;
  shared.endpoint = parts_.endpoint.get();
  if (parts_.endpoint || engine_) shared.hop = make_hop();
  auto progress = GpuProgress::start(std::move(shared), std::move(hooks));
  if (!progress) return progress.error();
  progress_ = std::move(*progress);
  return {};
}

std::unique_ptr<NetworkHop> GpuExecution::make_hop() {
  const LoopCall& c = fixed_;
  NetworkHop::Parts parts;
  parts.endpoint = parts_.endpoint.get();
  // What kernels only read is the progress thread's to write.
  parts.queue = PutQueueReader(c.queue.entries, c.queue.capacity, const_cast<uint64_t*>(c.queue.taken));
  parts.report = c.report;
  parts.rank = parts_.rank;
  parts.engine = std::move(engine_);
  if (parts.endpoint) {
    parts.out_words = const_cast<LoopLinkWords*>(c.out_words);
    parts.in_words = const_cast<LoopLinkWords*>(c.in_words);
    parts.out_count = c.out_count;
    parts.in_count = c.in_count;
    if (parts_.node->placement().inboxes_on_gpu) parts.flush = parts_.flush;
  }
  return std::make_unique<NetworkHop>(std::move(parts));
}

Result<> GpuExecution::finish(std::optional<Deadline> drain) {
  const auto ended = parts_.launcher->synchronize();
  progress_.reset();
  if (!ended || !drain || !parts_.endpoint) return ended;
  return parts_.endpoint->drain(*drain);
}

GpuExecution::~GpuExecution() {
  if (!memory_) return;
  Parked::of_process().free();
  (void)finish(std::nullopt);
  stop();  // what graphs replay from now on ends at once
}

Error GpuExecution::describe(const LoopReport& report) const {
  const auto me = static_cast<size_t>(parts_.node->me());
  const auto& peers = parts_.cluster->peers_of(parts_.rank);
  if (auto fault = fault_of(report, peers, parts_.tables[me].in, parts_.rank)) return std::move(*fault);
  return make_error(twohopInternalError, "rank {}: a call on the GPU has failed without a reason", parts_.rank);
}

Result<> GpuExecution::make_memory() {
  const size_t locals = static_cast<size_t>(parts_.node->size());
  const LinkTable& mine = parts_.tables[static_cast<size_t>(parts_.node->me())];
  const size_t out = mine.out.size(), in = mine.in.size();
  const GpuPlacement& placement = parts_.node->placement();
  const bool staged = parts_.endpoint && placement.windows_on_gpu && !placement.inboxes_on_gpu;
  const size_t staging = staged ? mine.out_inboxes() * 2 * parts_.node->addresses().map.inbox_bytes : 0;

  Carver gpu_size(nullptr), host_size(nullptr);
  OnGpu{gpu_size, locals, out, in};
  OnHost{host_size, out, in, staging};
  auto memory = std::make_shared<Memory>();  // memory_ once all of it is there
  memory->node = parts_.node;
  auto on_gpu = parts_.runtime->device_memory(parts_.device, gpu_size.used());
  if (!on_gpu) return on_gpu.error();
  auto on_host = parts_.runtime->host_memory(parts_.device, host_size.used());
  if (!on_host) return on_host.error();
  auto regions = GpuRegions::create(*parts_.runtime, parts_.device, std::move(parts_.meeting),
                                    parts_.node->placement().windows_on_gpu);
  if (!regions) return regions.error();
  memory->regions = std::move(*regions);
  memory->schedules = ScheduleMemory::reserve(*parts_.runtime, parts_.device, parts_.algorithms, *parts_.cluster,
                                              parts_.depths, parts_.rank, parts_.limits.max_channels);
  memory->on_gpu = std::move(*on_gpu);
  memory->on_host = std::move(*on_host);

  Carver gpu_carver(memory->on_gpu->data()), host_carver(memory->on_host->data());
  const OnGpu g(gpu_carver, locals, out, in);
  const OnHost h(host_carver, out, in, staging);
  const size_t pointers = locals * sizeof(std::byte*);
  for (auto [to, from] :
       {std::pair(g.boards, &parts_.node->boards()), std::pair(g.boards_of_me, &parts_.node->boards_of_me())})
    if (auto copied = parts_.runtime->upload(parts_.device, reinterpret_cast<std::byte*>(to), from->data(), pointers);
        !copied)
      return copied;
  fixed_.me = parts_.node->me();
  fixed_.locals = parts_.node->size();
  fixed_.boards = g.boards;
  fixed_.boards_of_me = g.boards_of_me;
  fixed_.state = g.state;
  fixed_.out = g.out_links;
  fixed_.in = g.in_links;
  fixed_.out_words = h.out_words;
  fixed_.in_words = h.in_words;
  fixed_.out_count = static_cast<uint32_t>(out);
  fixed_.in_count = static_cast<uint32_t>(in);
  fixed_.queue = {h.entries, g.tickets, h.taken, kQueueEntries};
  fixed_.staging = staged ? h.staging : nullptr;
  if (staged) staging_ = {h.staging, staging};
  fixed_.report = h.report;
  fixed_.regions = memory->regions->table();
  memory_ = std::move(memory);
  return {};
}

Result<> GpuExecution::make_copy_engine() {
  fixed_.windows_on_host = !parts_.node->placement().windows_on_gpu;
  fixed_.inboxes_on_host = parts_.endpoint && !parts_.node->placement().inboxes_on_gpu;
  if (!uses_engine()) return {};
  auto engine = parts_.runtime->make_copy_engine(parts_.device);
  if (!engine) return engine.error();
  engine_ = std::move(*engine);
  return {};
}

/// Memory that CUDA moves by itself, or that lies on the host, is the lanes' to copy: a copy that starts with either
/// may take the CPU's time, and the progress thread's is everybody's.
Result<bool> GpuExecution::may_use_engine(const Call& call) const {
  if (!uses_engine()) return false;
  const bool reads = call.collective != Collective::kBroadcast || call.root == parts_.rank;
  for (const void* buffer : {reads ? call.send : nullptr, static_cast<const void*>(call.recv)}) {
    if (!buffer) continue;
    auto info = parts_.runtime->memory_info(buffer);
    if (!info) return info.error();
    if (info->kind != MemoryKind::kDevice) return false;
  }
  return true;
}

LoopReport& GpuExecution::report() const {
  return *fixed_.report;
}

void GpuExecution::stop() {
  store_release(&report().stop, 1);
}

Result<const GpuSchedule*> GpuExecution::schedule_for(const Call& call, const Choice& choice) {
  const Key key(choice.algorithm, call.collective, call.root);
  if (auto it = schedules_.find(key); it != schedules_.end()) return &it->second;
  const Request request{parts_.cluster, call.collective, call.root, parts_.depths};
  const BoundSchedule bound = twohop::bind(*choice.algorithm, request, false, parts_.rank, parts_.node->addresses(),
                                           parts_.tables, parts_.limits.max_channels);
  auto uploaded = upload(*parts_.runtime, parts_.device, bound, parts_.node->addresses().map, memory_->schedules);
  if (!uploaded) return uploaded.error();
  uploaded->reads_inputs_once = reads_inputs_once(*choice.algorithm, request, parts_.rank);
  return &schedules_.emplace(key, std::move(*uploaded)).first->second;
}

Result<> GpuExecution::prepare(const Call& call, const Choice& choice) {
  auto schedule = schedule_for(call, choice);
  if (!schedule) return schedule.error();
  return {};
}

LayoutLimits GpuExecution::limits_for(const Choice& choice) const {
  LayoutLimits limits = parts_.limits;
  limits.chunk_bytes = std::min(limits.chunk_bytes, choice.chunk_bytes);
  // Who chooses all of the host's channels means all.
  if (choice.channels < parts_.host_channels) limits.max_channels = std::min(limits.max_channels, choice.channels);
  return limits;
}

Result<> GpuExecution::launch(const Call& call, const Choice& choice, GpuStream stream) {
  auto found = schedule_for(call, choice);
  if (!found) return found.error();
  const GpuSchedule& schedule = **found;
  const LayoutLimits limits = limits_for(choice);
  const Layout layout(schedule.frame, *parts_.cluster, call.count * type_size(call.type), limits);
  LoopCall c = fixed_;
  set_arguments(c, call, schedule.frame, layout, limits, parts_.cluster->nranks());
  c.lanes = schedule.lanes;
  c.lane_count = schedule.lanes_of_channels[static_cast<size_t>(layout.channels())];
  TWOHOP_CHECK(c.lane_count > 0 && c.lane_count <= parts_.launcher->resident_lanes(),
               "a call of {} lanes, {} are resident", c.lane_count, parts_.launcher->resident_lanes());
  auto captured = parts_.launcher->is_capturing(stream);
  if (!captured) return captured.error();
  auto by_engine = may_use_engine(call);
  if (!by_engine) return by_engine.error();
  c.by_engine = *by_engine;
  c.direct = direct_of(call, schedule);
  if (c.direct != 0) ++direct_calls_;
  if (*captured) {
    if (auto held = capture(stream, c.direct); !held) return held;
  } else {
    c.launch = launched() + 1;
    launched_.store(c.launch, std::memory_order_release);
  }
  auto launched = parts_.launcher->launch(call.type, c, stream);
  progress_->wake();
  return launched;
}

GpuRegions& GpuExecution::regions() const {
  return *memory_->regions;
}

/// Where the others read this call's contribution, if that is registered and a reduction is what they read it for.
uint64_t GpuExecution::direct_of(const Call& call, const GpuSchedule& schedule) {
  const bool reduces = call.collective == Collective::kAllReduce || call.collective == Collective::kReduceScatter;
  if (!reduces || call.count == 0) return 0;
  const uint64_t block = call.count * type_size(call.type),
                 all = block * static_cast<uint64_t>(parts_.cluster->nranks());
  const uint64_t bytes = call.collective == Collective::kReduceScatter ? all : block;
  const auto *send = static_cast<const std::byte*>(call.send), *recv = static_cast<const std::byte*>(call.recv);
  const bool in_place = recv + block > send && send + bytes > recv;
  if (in_place && !schedule.reads_inputs_once) return 0;
  return regions().find(send, bytes);
}

/// The graph keeps the memory of its calls, beyond the communicator's end if need be.
Result<> GpuExecution::capture(GpuStream stream, uint64_t direct) {
  memory_->graphs.fetch_add(1);
  std::shared_ptr<void> token(memory_.get(), [memory = memory_, region = regions().hold(direct)](void*) {
    memory->graphs.fetch_sub(1);
    Parked::of_process().add(memory);
  });
  return parts_.launcher->hold_in_graph(stream, std::move(token));
}

}  // namespace twohop
