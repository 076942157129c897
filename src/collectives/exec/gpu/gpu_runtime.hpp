// GpuRuntime: all that calls on GPU memory ask of the machine's GPUs. CUDA implements it (cuda/cuda_runtime.cpp); tests
// play it on host threads, so that whole calls run where there is no GPU.
//
// Functions may be called from any thread, leave the thread's current device as it was, and never wait for a kernel
// that runs (they may be called while one waits for another rank), except where they say so.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "base/socket.hpp"
#include "collectives/exec/loop/copy_engine.hpp"
#include "collectives/exec/loop/loop_call.hpp"
#include "device/cuda_device.hpp"

namespace twohop {

/// A cudaStream_t; null is the default stream.
using GpuStream = void*;

/// Memory that a GPU reaches, freed at the end of its life.
class GpuMemory {
 public:
  GpuMemory() = default;
  GpuMemory(const GpuMemory&) = delete;
  GpuMemory& operator=(const GpuMemory&) = delete;
  virtual ~GpuMemory() = default;

  virtual std::byte* data() const = 0;
  virtual size_t size() const = 0;
  /// What the other ranks of the node need to map it; of segments only.
  virtual Result<std::vector<Fd>> export_fds() const {
    return make_error(twohopInternalError, "this memory is not a segment and cannot be handed to other ranks");
  }
};

/// Launches the calls of one communicator on its GPU, one after the other whatever their streams. One thread at a time.
class GpuLauncher {
 public:
  GpuLauncher() = default;
  GpuLauncher(const GpuLauncher&) = delete;
  GpuLauncher& operator=(const GpuLauncher&) = delete;
  virtual ~GpuLauncher() = default;

  /// Lanes that run at the same time, whatever the type: a call may have so many.
  virtual uint32_t resident_lanes() const = 0;
  /// Enqueues the call; returns at once. While the stream is being captured it becomes part of the graph.
  virtual Result<> launch(twohopDataType_t type, const LoopCall& call, GpuStream stream) = 0;
  virtual Result<bool> is_capturing(GpuStream stream) = 0;
  /// The graph that the stream is being captured into, and all that is made from it, hold `token` as long as they live.
  virtual Result<> hold_in_graph(GpuStream stream, std::shared_ptr<void> token) = 0;
  /// Waits until the calls that were launched, not those of graphs, have ended.
  virtual Result<> synchronize() = 0;
};

class GpuRuntime {
 public:
  GpuRuntime() = default;
  GpuRuntime(const GpuRuntime&) = delete;
  GpuRuntime& operator=(const GpuRuntime&) = delete;
  virtual ~GpuRuntime() = default;

  virtual Result<MemoryInfo> memory_info(const void* address) = 0;
  /// The calling thread's GPU, which becomes that of a communicator. Nothing where the process has not used it yet and
  /// `wake` is false: a context costs time and memory that programs on host memory need not pay.
  virtual Result<std::optional<int>> current_device(bool wake) = 0;
  /// The same text for the same GPU in all processes.
  virtual Result<std::string> device_identity(int device) = 0;

  /// Whether `device` reaches the memory of the GPUs with these identities (P2P), as far as that can be asked; the
  /// error says which it does not reach, and who says so. That nothing is known is no error: mapping will tell.
  virtual Result<> check_peer_access(int device, std::span<const std::string> peers) = 0;

  // Zero-filled.
  virtual Result<std::unique_ptr<GpuMemory>> device_memory(int device, size_t bytes) = 0;
  virtual Result<std::unique_ptr<GpuMemory>> host_memory(int device, size_t bytes) = 0;  // pinned; both sides reach it
  virtual Result<std::unique_ptr<GpuMemory>> make_segment(int device, size_t bytes) = 0;
  /// Maps another rank's segment for use by `device`: an error where the GPUs cannot reach each other (P2P).
  virtual Result<std::unique_ptr<GpuMemory>> map_segment(int device, std::vector<Fd> fds, size_t bytes) = 0;
  /// A segment of memory that exists already, the whole allocation in which `address` lies. Only what make_segment has
  /// made is kept alive by it. An error where other processes cannot map such memory.
  virtual Result<std::unique_ptr<GpuMemory>> share_memory(int device, const void* address) = 0;
  /// A dma-buf of a segment of ours, by which other devices reach it. The error says why there is none.
  virtual Result<Fd> dma_buf(int device, std::span<std::byte> segment) = 0;
  /// Lets `device` reach host memory that exists already, at the same address, as long as the result lives.
  virtual Result<std::shared_ptr<void>> pin(int device, std::span<std::byte> memory) = 0;
  /// Copies into device memory that no kernel uses yet; complete on return.
  virtual Result<> upload(int device, std::byte* to, const void* from, size_t bytes) = 0;

  /// Everything that its copies need is there when it has been made.
  virtual Result<std::unique_ptr<CopyEngine>> make_copy_engine(int device) = 0;
  /// Loads the kernels of all types: nothing is loaded once calls run.
  virtual Result<std::unique_ptr<GpuLauncher>> make_launcher(int device) = 0;
  /// What makes all that a NIC has written to the GPU visible to its kernels, and with `for_all_gpus` to those of other
  /// GPUs that read it: to be called after each arrival. Empty where the hardware does it; an error where nothing can.
  virtual Result<std::function<Result<>()>> remote_writes_flush(int device, bool for_all_gpus) = 0;
};

/// The machine's; null where the library was built without CUDA, or no GPU can be used.
GpuRuntime* gpu_runtime();
/// Takes the place of the machine's until it is set to null. For tests; no communicator may exist.
void set_gpu_runtime(GpuRuntime* runtime);

/// The one that was built in: cuda/cuda_runtime.cpp or its stub. Null where no GPU can be used.
GpuRuntime* built_in_gpu_runtime();

}  // namespace twohop
