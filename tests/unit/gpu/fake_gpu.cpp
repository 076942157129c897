#include "fake_gpu.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "device/shared_memory.hpp"
#include "host_group.hpp"

namespace twohop::gpu_test {
namespace {

thread_local int current = 0;
constexpr unsigned kThreadsPerLane = 2;

class PlainMemory : public GpuMemory {
 public:
  PlainMemory(size_t bytes, std::atomic<size_t>& live)
      : memory_(new std::byte[bytes + 128]()), bytes_(bytes), live_(live) {
    ++live_;
  }
  ~PlainMemory() override { --live_; }
  std::byte* data() const override {
    return memory_.get() + (128 - reinterpret_cast<uintptr_t>(memory_.get()) % 128) % 128;
  }
  size_t size() const override { return bytes_; }

 private:
  std::unique_ptr<std::byte[]> memory_;
  size_t bytes_;
  std::atomic<size_t>& live_;
};

class FakeSegment : public GpuMemory {
 public:
  explicit FakeSegment(SharedMemory memory) : memory_(std::move(memory)) {}
  std::byte* data() const override { return memory_.bytes().data(); }
  size_t size() const override { return memory_.bytes().size(); }
  Result<std::vector<Fd>> export_fds() const override {
    std::vector<Fd> fds;
    fds.emplace_back(::dup(memory_.fd()));
    return Result<std::vector<Fd>>(std::move(fds));
  }

 private:
  SharedMemory memory_;
};

/// Kernels of one communicator, one after the other: those that were launched in the order of their launches; the user
/// orders replays.
struct Turns {
  std::mutex mutex, running;
  std::condition_variable changed;
  uint64_t issued = 0, done = 0;

  void replay(const std::function<void()>& kernel) {
    const std::lock_guard one_at_a_time(running);
    kernel();
  }
  void run(uint64_t mine, const std::function<void()>& kernel) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return done == mine; });
    lock.unlock();
    replay(kernel);
    lock.lock();
    ++done;
    changed.notify_all();
  }
};

class FakeLauncher : public GpuLauncher {
 public:
  FakeLauncher(FakeGpus& gpus, int device, const Defects& defects) : gpus_(gpus), device_(device), defects_(defects) {}

  uint32_t resident_lanes() const override { return defects_.resident_lanes; }
  Result<> launch(twohopDataType_t type, const LoopCall& call, GpuStream stream) override {
    if (defects_.launches_fail) return make_error(twohopUnhandledCudaError, "the fake GPU refuses to launch");
    FakeStream& on = stream_of(stream);
    const auto kernel = [call, type] { loop_test::run_lanes(call, type, kThreadsPerLane); };
    if (FakeGraph* graph = on.capture()) {
      graph->launches.push_back([turns = turns_, kernel] { turns->replay(kernel); });
      return {};
    }
    uint64_t mine = 0;
    {
      const std::lock_guard lock(turns_->mutex);
      mine = turns_->issued++;
    }
    on.enqueue([turns = turns_, mine, kernel] { turns->run(mine, kernel); });
    return {};
  }
  Result<bool> is_capturing(GpuStream stream) override { return stream_of(stream).capture() != nullptr; }
  Result<> hold_in_graph(GpuStream stream, std::shared_ptr<void> token) override {
    stream_of(stream).capture()->held.push_back(std::move(token));
    return {};
  }
  Result<> synchronize() override {
    std::unique_lock lock(turns_->mutex);
    turns_->changed.wait(lock, [&] { return turns_->done == turns_->issued; });
    return {};
  }

 private:
  FakeStream& stream_of(GpuStream stream) {
    return stream ? *static_cast<FakeStream*>(stream) : gpus_.default_stream(device_);
  }
  FakeGpus& gpus_;
  int device_;
  Defects defects_;
  std::shared_ptr<Turns> turns_ = std::make_shared<Turns>();
};

}  // namespace

FakeStream::FakeStream() : thread_([this] { run(); }) {}
FakeStream::~FakeStream() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}
void FakeStream::enqueue(std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(work));
  }
  changed_.notify_all();
}
void FakeStream::synchronize() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return queue_.empty() && !busy_; });
}
void FakeStream::replay(const FakeGraph& graph) {
  for (const auto& launch : graph.launches) enqueue(launch);
}
void FakeStream::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return ending_ || !queue_.empty(); });
    if (queue_.empty()) return;
    const auto work = std::move(queue_.front());
    queue_.pop_front();
    busy_ = true;
    lock.unlock();
    work();
    lock.lock();
    busy_ = false;
    changed_.notify_all();
  }
}

FakeGpus::FakeGpus(Defects defects) : defects_(defects) {
  set_gpu_runtime(this);
}
FakeGpus::~FakeGpus() {
  set_gpu_runtime(nullptr);
}

void FakeGpus::set_device(int device) {
  current = device;
}

std::byte* FakeGpus::allocate(size_t bytes, MemoryKind kind, int device) {
  Allocation a;
  a.memory = std::make_unique<std::byte[]>(bytes + 256);
  const auto at = reinterpret_cast<uintptr_t>(a.memory.get());
  a.start = a.memory.get() + (256 - at % 256) % 256;
  a.bytes = bytes;
  a.kind = kind;
  a.device = device;
  const std::lock_guard lock(mutex_);
  a.id = ++ids_;
  std::byte* start = a.start;
  allocations_[reinterpret_cast<uintptr_t>(start)] = std::move(a);
  return start;
}
void FakeGpus::free(std::byte* memory) {
  const std::lock_guard lock(mutex_);
  allocations_.erase(reinterpret_cast<uintptr_t>(memory));
}

FakeStream& FakeGpus::default_stream(int device) {
  const std::lock_guard lock(mutex_);
  auto& stream = default_streams_[device];
  if (!stream) stream = std::make_unique<FakeStream>();
  return *stream;
}

Result<MemoryInfo> FakeGpus::memory_info(const void* address) {
  const auto at = reinterpret_cast<uintptr_t>(address);
  const std::lock_guard lock(mutex_);
  auto it = allocations_.upper_bound(at);
  if (it == allocations_.begin()) return MemoryInfo{};
  const Allocation& a = (--it)->second;
  if (at >= it->first + std::max<size_t>(a.bytes, 1)) return MemoryInfo{};
  MemoryInfo info;
  info.kind = a.kind;
  info.device = a.kind == MemoryKind::kPinned ? -1 : a.device;
  info.base = it->first;
  info.bytes = a.bytes;
  info.allocation_id = a.id;
  return info;
}

Result<std::optional<int>> FakeGpus::current_device(bool wake) {
  if (!wake && current == defects_.device_without_context) return std::optional<int>();
  return std::optional(current);
}
Result<std::string> FakeGpus::device_identity(int device) {
  return "fake-" + std::to_string(device);
}
Result<std::unique_ptr<GpuMemory>> FakeGpus::device_memory(int, size_t bytes) {
  return std::unique_ptr<GpuMemory>(std::make_unique<PlainMemory>(bytes, live_));
}
Result<std::unique_ptr<GpuMemory>> FakeGpus::host_memory(int, size_t bytes) {
  return std::unique_ptr<GpuMemory>(std::make_unique<PlainMemory>(bytes, live_));
}
Result<std::unique_ptr<GpuMemory>> FakeGpus::make_segment(int, size_t bytes) {
  auto made = SharedMemory::create(bytes);
  if (!made) return made.error();
  return std::unique_ptr<GpuMemory>(std::make_unique<FakeSegment>(std::move(*made)));
}
Result<std::unique_ptr<GpuMemory>> FakeGpus::map_segment(int device, std::vector<Fd> fds, size_t bytes) {
  if (defects_.no_peer_access)
    return make_error(twohopUnhandledCudaError, "fake GPU {} does not reach the others", device);
  auto mapped = SharedMemory::map(std::move(fds[0]), bytes);
  if (!mapped) return mapped.error();
  return std::unique_ptr<GpuMemory>(std::make_unique<FakeSegment>(std::move(*mapped)));
}
/// One that no device takes, so that the next way has to be tried.
Result<Fd> FakeGpus::dma_buf(int, std::span<std::byte>) {
  return Result<Fd>(Fd(::memfd_create("fake-dma-buf", MFD_CLOEXEC)));
}
Result<std::shared_ptr<void>> FakeGpus::pin(int, std::span<std::byte> memory) {
  return std::shared_ptr<void>(memory.data(), [](void*) {});
}
Result<> FakeGpus::upload(int, std::byte* to, const void* from, size_t bytes) {
  std::memcpy(to, from, bytes);
  return {};
}
Result<std::unique_ptr<GpuLauncher>> FakeGpus::make_launcher(int device) {
  return std::unique_ptr<GpuLauncher>(std::make_unique<FakeLauncher>(*this, device, defects_));
}

}  // namespace twohop::gpu_test
