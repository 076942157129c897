// GpuExecution: runs a communicator's calls on GPU memory. A call is one launch of the device loop, in the order of the
// user's stream; the host waits for nothing. What the kernels need of the CPU meanwhile is gpu_progress.hpp's.
//
// One thread at a time prepares and launches (the communicator's), any thread stops.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <tuple>
#include <vector>

#include "collectives/exec/bound_schedule.hpp"
#include "collectives/exec/call.hpp"
#include "collectives/exec/gpu/gpu_node.hpp"
#include "collectives/exec/gpu/gpu_progress.hpp"
#include "collectives/exec/gpu/gpu_regions.hpp"
#include "collectives/exec/gpu/gpu_schedule.hpp"
#include "collectives/plan/layout.hpp"
#include "collectives/plan/model/choice.hpp"

namespace twohop {

/// What a rank needs to run calls on its GPU; handed over by the init.
struct GpuParts {
  GpuRuntime* runtime = nullptr;
  int device = 0;
  std::shared_ptr<GpuNode> node;
  std::unique_ptr<Endpoint> endpoint;  // null on a single node; its own, beside the host path's
  std::function<Result<>()> flush;     // after arrivals in GPU memory; empty: nothing to do
  std::unique_ptr<GpuLauncher> launcher;
  bool use_memcpy = false;  // copies between GPU and host memory are a copy engine's (TWOHOP_USE_CUDA_MEMCPY)
  const Cluster* cluster = nullptr;
  int rank = 0;
  std::vector<LinkTable> tables;             // of the node's ranks
  std::vector<const Algorithm*> algorithms;  // that calls may be run by
  LayoutLimits limits;
  int host_channels = 1;  // that choices were made for
  Depths depths;
  GpuMeetingPlace meeting;
};

class GpuExecution {
 public:
  /// Makes what kernels and the CPU share.
  static Result<std::unique_ptr<GpuExecution>> create(GpuParts parts);
  /// What puts are sent from, where that is memory of its own: for the endpoint to register.
  std::span<std::byte> staging() const { return staging_; }
  /// Whether chunks are copied between GPU memory and host memory at all, and whether by a copy engine.
  bool copies_through_host() const { return !staging_.empty() || !parts_.node->placement().windows_on_gpu; }
  bool uses_engine() const { return parts_.use_memcpy && copies_through_host(); }
  /// Once the endpoint is connected, and before the first launch: starts the progress thread.
  Result<> begin(GpuProgress::Hooks hooks);

  ~GpuExecution();
  /// Waits until launched calls have ended, or have left if they were stopped, and ends the progress thread. With a
  /// deadline also waits until peers have taken what was sent.
  Result<> finish(std::optional<Deadline> drain);
  /// What the kernels have reported, in words.
  Error describe(const LoopReport& report) const;

  int device() const { return parts_.device; }
  const GpuNode& node() const { return *parts_.node; }
  Endpoint* endpoint() { return parts_.endpoint.get(); }

  /// Binds and uploads what the call needs, where that is new. A group prepares all its calls before it launches one.
  Result<> prepare(const Call& call, const Choice& choice);
  /// Enqueues the call on the stream. Pre: prepared.
  Result<> launch(const Call& call, const Choice& choice, GpuStream stream);

  /// Lets the other ranks of the node read this device memory of the user's where it lies; all of them do so together
  /// (gpu_regions.hpp). A number for deregister_memory. `kept`: the memory is not freed meanwhile. `idle`: no
  /// call on the host is pending.
  Result<uint64_t> register_memory(std::span<std::byte> memory, bool kept, bool idle) {
    return regions().add(memory, kept, idle && all_launches_are_over());
  }
  Result<> deregister_memory(uint64_t number, bool idle) {
    return regions().remove(number, idle && all_launches_are_over());
  }
  /// Launched, captured included, with a contribution that is read where it lies.
  uint64_t direct_calls() const { return direct_calls_; }

  /// All kernels leave, those of graphs too, now and later. Any thread.
  void stop();
  uint64_t launched() const { return launched_.load(std::memory_order_relaxed); }
  EndpointCounters net_counters() const { return progress_ ? progress_->counters() : EndpointCounters(); }
  /// Calls that kernels have begun and ended.
  uint64_t started() const { return load_acquire(&report().started); }
  uint64_t finished() const { return load_acquire(&report().finished); }
  bool all_launches_are_over() const { return load_acquire(&report().launch) == launched(); }

 private:
  /// All that kernels touch: graphs hold it beyond the communicator's life.
  struct Memory;
  class Parked;
  using Key = std::tuple<const Algorithm*, Collective, int>;

  explicit GpuExecution(GpuParts parts) : parts_(std::move(parts)) {}
  Result<> make_memory();
  Result<> make_copy_engine();
  Result<bool> may_use_engine(const Call& call) const;
  std::unique_ptr<NetworkHop> make_hop();
  Result<const GpuSchedule*> schedule_for(const Call& call, const Choice& choice);
  LayoutLimits limits_for(const Choice& choice) const;
  uint64_t direct_of(const Call& call, const GpuSchedule& schedule);
  GpuRegions& regions() const;
  Result<> capture(GpuStream stream, uint64_t direct);
  LoopReport& report() const;

  GpuParts parts_;
  std::shared_ptr<Memory> memory_;
  LoopCall fixed_;  // the arguments that are the same in every call
  std::span<std::byte> staging_;
  std::unique_ptr<CopyEngine> engine_;  // until the progress thread has it
  std::map<Key, GpuSchedule> schedules_;
  std::atomic<uint64_t> launched_{0};
  uint64_t direct_calls_ = 0;
  std::unique_ptr<GpuProgress> progress_;
};

}  // namespace twohop
