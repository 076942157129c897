// GPUs played by host threads: memory that the library is told is a GPU's, streams, graphs, and launches that run the
// device loop. What a test does with it goes through the C API, so that whole calls run where there is no GPU.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "collectives/exec/gpu/gpu_runtime.hpp"
#include "device/shared_memory.hpp"
#include "fake_copy_engine.hpp"

namespace twohop::gpu_test {

/// What was captured, and what it holds.
struct FakeGraph {
  std::vector<std::function<void()>> launches;
  std::vector<std::shared_ptr<void>> held;
};

/// A stream of a GPU: a thread that runs what is enqueued, in order. Its address is passed as the stream.
class FakeStream {
 public:
  FakeStream();
  ~FakeStream();  // after all that was enqueued
  FakeStream(const FakeStream&) = delete;
  FakeStream& operator=(const FakeStream&) = delete;

  void enqueue(std::function<void()> work);
  void synchronize();
  bool busy();

  void begin_capture() { capture_ = std::make_unique<FakeGraph>(); }
  std::unique_ptr<FakeGraph> end_capture() { return std::move(capture_); }
  FakeGraph* capture() { return capture_.get(); }
  void replay(const FakeGraph& graph);

 private:
  void run();
  std::unique_ptr<FakeGraph> capture_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;
  bool busy_ = false, ending_ = false;
  std::thread thread_;
};

/// What does not work on this machine.
struct Defects {
  bool no_peer_access = false;                               // mapping another GPU's memory fails
  bool peers_are_known_to_be = true;                         // within reach, as far as can be asked before
  int maps_no_user_memory = -1, shares_no_user_memory = -1;  // a device
  int device_without_context = -1;
  uint32_t resident_lanes = 4096;
  bool launches_fail = false;
  int device_without_engine = -1;
  size_t failing_allocation = 0;  // of those that allocations() counts, from 1
  int device_without_flush = -1;  // for kernels of other GPUs
};

class FakeGpus : public GpuRuntime {
 public:
  explicit FakeGpus(Defects defects = {});
  ~FakeGpus() override;

  /// As cudaSetDevice: of this thread.
  static void set_device(int device);
  /// As cudaMalloc and its kin: memory that the library takes for what it is said to be.
  std::byte* allocate(size_t bytes, MemoryKind kind = MemoryKind::kDevice, int device = 0);
  void free(std::byte* memory);
  /// As cudaFree and a cudaMalloc that happens to give the same address out again.
  void free_and_allocate_again(std::byte* memory);
  FakeStream& default_stream(int device);

  Result<MemoryInfo> memory_info(const void* address) override;
  Result<std::optional<int>> current_device(bool wake) override;
  Result<std::string> device_identity(int device) override;
  Result<> check_peer_access(int device, std::span<const std::string> peers) override;
  Result<std::unique_ptr<GpuMemory>> device_memory(int device, size_t bytes) override;
  Result<std::unique_ptr<GpuMemory>> host_memory(int device, size_t bytes) override;
  Result<std::unique_ptr<GpuMemory>> make_segment(int device, size_t bytes) override;
  Result<std::unique_ptr<GpuMemory>> map_segment(int device, std::vector<Fd> fds, size_t bytes) override;
  Result<std::unique_ptr<GpuMemory>> share_memory(int device, const void* address) override;
  Result<Fd> dma_buf(int device, std::span<std::byte> segment) override;
  Result<std::shared_ptr<void>> pin(int device, std::span<std::byte> memory) override;
  Result<> upload(int device, std::byte* to, const void* from, size_t bytes) override;
  Result<std::unique_ptr<CopyEngine>> make_copy_engine(int device) override;
  Result<std::unique_ptr<GpuLauncher>> make_launcher(int device) override;
  Result<std::function<Result<>()>> remote_writes_flush(int device, bool for_all_gpus) override;

  size_t allocations() const { return allocated_.load(); }  // by device_memory() and host_memory(), so far
  size_t live_memories() const { return live_->memories; }  // made by device_memory() and not freed
  loop_test::CopyEngineBehaviour& copies() { return copies_; }
  int regions() const { return live_->regions; }  // of the user's memory, mapped by other ranks now
  /// Of which size memory was to be reached by other devices, in turn.
  std::vector<size_t> dma_bufs(int device) {
    const std::lock_guard lock(mutex_);
    return dma_bufs_[device];
  }
  std::atomic<uint32_t>& most_lanes() { return most_lanes_; }          // of a launch, so far
  std::atomic<size_t>& largest_segment() { return largest_segment_; }  // bytes
  int flushes(bool for_all_gpus) const { return flushes_[for_all_gpus]; }

  /// Counted by memory that may outlive the GPUs, since the library frees what graphs held when it next comes by.
  struct Live {
    std::atomic<size_t> memories{0};
    std::atomic<int> regions{0};
  };

 private:
  class Segment;
  class Mapped;
  struct Allocation {
    SharedMemory memory, again;  // `again` is mapped over it
    std::byte* start = nullptr;
    size_t bytes = 0;
    int fd() const { return again.bytes().empty() ? memory.fd() : again.fd(); }
    MemoryKind kind = MemoryKind::kDevice;
    int device = 0;
    uint64_t id = 0;
  };
  /// That `address` lies in; with mutex_.
  const Allocation* find(const void* address) const;
  void add(Allocation allocation);
  Result<std::unique_ptr<GpuMemory>> plain_memory(size_t bytes);

  Defects defects_;
  std::mutex mutex_;
  std::map<uintptr_t, Allocation> allocations_;  // by start
  std::atomic<uint64_t> ids_{0};
  std::map<int, std::unique_ptr<FakeStream>> default_streams_;
  std::atomic<size_t> allocated_{0};
  std::atomic<int> flushes_[2] = {};
  std::atomic<uint32_t> most_lanes_{0};
  std::atomic<size_t> largest_segment_{0};
  std::map<int, std::vector<size_t>> dma_bufs_;
  std::shared_ptr<Live> live_ = std::make_shared<Live>();
  loop_test::CopyEngineBehaviour copies_;
};

}  // namespace twohop::gpu_test
