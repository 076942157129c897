#include "fake_gpu.hpp"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "host_group.hpp"

namespace twohop::gpu_test {
namespace {

thread_local int current = 0;
constexpr unsigned kThreadsPerLane = 2;

class PlainMemory : public GpuMemory {
 public:
  PlainMemory(size_t bytes, std::shared_ptr<FakeGpus::Live> live)
      : memory_(new std::byte[bytes + 128]()), bytes_(bytes), live_(std::move(live)) {
    ++live_->memories;
  }
  ~PlainMemory() override { --live_->memories; }
  std::byte* data() const override {
    return memory_.get() + (128 - reinterpret_cast<uintptr_t>(memory_.get()) % 128) % 128;
  }
  size_t size() const override { return bytes_; }

 private:
  std::unique_ptr<std::byte[]> memory_;
  size_t bytes_;
  std::shared_ptr<FakeGpus::Live> live_;
};

/// Another rank's segment.
class MappedWindow : public GpuMemory {
 public:
  explicit MappedWindow(SharedMemory memory) : memory_(std::move(memory)) {}
  std::byte* data() const override { return memory_.bytes().data(); }
  size_t size() const override { return memory_.bytes().size(); }

 private:
  SharedMemory memory_;
};
Result<std::unique_ptr<GpuMemory>> map_window(Fd fd, size_t bytes) {
  auto mapped = SharedMemory::map(std::move(fd), bytes);
  if (!mapped) return mapped.error();
  return std::unique_ptr<GpuMemory>(std::make_unique<MappedWindow>(std::move(*mapped)));
}

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

template <class T>
void raise(std::atomic<T>& most, T value) {
  for (T known = most; known < value && !most.compare_exchange_weak(known, value);) continue;
}

class FakeLauncher : public GpuLauncher {
 public:
  FakeLauncher(FakeGpus& gpus, int device, const Defects& defects) : gpus_(gpus), device_(device), defects_(defects) {}

  uint32_t resident_lanes() const override { return defects_.resident_lanes; }
  Result<> launch(twohopDataType_t type, const LoopCall& call, GpuStream stream) override {
    if (defects_.launches_fail) return make_error(twohopUnhandledCudaError, "the fake GPU refuses to launch");
    FakeStream& on = stream_of(stream);
    raise(gpus_.most_lanes(), call.lane_count);
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
bool FakeStream::busy() {
  const std::lock_guard lock(mutex_);
  return busy_ || !queue_.empty();
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

/// Known as device memory as long as it lives, but not numbered: as memory of cuMemMap is.
class FakeGpus::Segment : public GpuMemory {
 public:
  Segment(FakeGpus& gpus, std::byte* data, size_t bytes) : gpus_(gpus), data_(data), bytes_(bytes) {}
  ~Segment() override { gpus_.free(data_); }
  std::byte* data() const override { return data_; }
  size_t size() const override { return bytes_; }
  Result<std::vector<Fd>> export_fds() const override {
    const std::lock_guard lock(gpus_.mutex_);
    std::vector<Fd> fds;
    fds.emplace_back(::dup(gpus_.find(data_)->fd()));
    return Result<std::vector<Fd>>(std::move(fds));
  }

 private:
  FakeGpus& gpus_;
  std::byte* data_;
  size_t bytes_;
};

/// The user's memory: as it is shared, and as another rank sees it. At another address, also in the same process.
class FakeGpus::Mapped : public GpuMemory {
 public:
  Mapped(std::byte* data, size_t bytes, Fd fd, std::shared_ptr<Live> live)
      : data_(data), bytes_(bytes), fd_(std::move(fd)), live_(std::move(live)) {
    if (live_) ++live_->regions;
  }
  ~Mapped() override {
    if (!live_) return;
    --live_->regions;
    ::munmap(data_, bytes_);
  }
  std::byte* data() const override { return data_; }
  size_t size() const override { return bytes_; }
  Result<std::vector<Fd>> export_fds() const override {
    std::vector<Fd> fds;
    for (int i = 0; i < 2; ++i) fds.emplace_back(::dup(fd_.get()));  // two: map_segment tells it from a segment
    return Result<std::vector<Fd>>(std::move(fds));
  }

 private:
  std::byte* data_;
  size_t bytes_;
  Fd fd_;
  std::shared_ptr<Live> live_;
};

void FakeGpus::add(Allocation allocation) {
  const std::lock_guard lock(mutex_);
  allocations_[reinterpret_cast<uintptr_t>(allocation.start)] = std::move(allocation);
}

std::byte* FakeGpus::allocate(size_t bytes, MemoryKind kind, int device) {
  Allocation a;
  a.memory = std::move(*SharedMemory::create(std::max<size_t>(bytes, 1)));
  std::byte* start = a.start = a.memory.bytes().data();
  a.bytes = bytes;
  a.kind = kind;
  a.device = device;
  a.id = ++ids_;
  add(std::move(a));
  return start;
}
void FakeGpus::free(std::byte* memory) {
  const std::lock_guard lock(mutex_);
  allocations_.erase(reinterpret_cast<uintptr_t>(memory));
}
void FakeGpus::free_and_allocate_again(std::byte* memory) {
  const std::lock_guard lock(mutex_);
  Allocation& a = allocations_.at(reinterpret_cast<uintptr_t>(memory));
  a.again = std::move(*SharedMemory::create(a.memory.bytes().size()));
  void* at = ::mmap(memory, a.memory.bytes().size(), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, a.again.fd(), 0);
  if (at != memory) std::abort();
  a.id = ++ids_;
}
const FakeGpus::Allocation* FakeGpus::find(const void* address) const {
  const auto at = reinterpret_cast<uintptr_t>(address);
  auto it = allocations_.upper_bound(at);
  if (it == allocations_.begin()) return nullptr;
  --it;
  return at < it->first + std::max<size_t>(it->second.bytes, 1) ? &it->second : nullptr;
}

FakeStream& FakeGpus::default_stream(int device) {
  const std::lock_guard lock(mutex_);
  auto& stream = default_streams_[device];
  if (!stream) stream = std::make_unique<FakeStream>();
  return *stream;
}

Result<MemoryInfo> FakeGpus::memory_info(const void* address) {
  const std::lock_guard lock(mutex_);
  const Allocation* a = find(address);
  if (!a) return MemoryInfo{};
  MemoryInfo info;
  info.kind = a->kind;
  info.device = a->kind == MemoryKind::kPinned ? -1 : a->device;
  info.allocation_id = a->id;
  if (a->id == 0) return info;
  info.base = reinterpret_cast<uintptr_t>(a->start);
  info.bytes = a->bytes;
  return info;
}

Result<std::optional<int>> FakeGpus::current_device(bool wake) {
  if (!wake && current == defects_.device_without_context) return std::optional<int>();
  return std::optional(current);
}
Result<std::string> FakeGpus::device_identity(int device) {
  return "fake-" + std::to_string(device);
}
Result<std::unique_ptr<GpuMemory>> FakeGpus::plain_memory(size_t bytes) {
  if (++allocated_ == defects_.failing_allocation)
    return make_error(twohopUnhandledCudaError, "the fake GPUs are out of memory");
  return std::unique_ptr<GpuMemory>(std::make_unique<PlainMemory>(bytes, live_));
}
Result<std::unique_ptr<GpuMemory>> FakeGpus::device_memory(int, size_t bytes) {
  return plain_memory(bytes);
}
Result<std::unique_ptr<GpuMemory>> FakeGpus::host_memory(int, size_t bytes) {
  return plain_memory(bytes);
}
Result<> FakeGpus::check_peer_access(int device, std::span<const std::string> peers) {
  if (defects_.peers_are_known_to_be || peers.size() == 1) return {};
  return make_error(twohopUnhandledCudaError, "fake GPU {} is known not to reach {}", device, peers.back());
}
Result<std::unique_ptr<GpuMemory>> FakeGpus::make_segment(int device, size_t bytes) {
  Allocation a;
  auto made = SharedMemory::create(bytes);
  if (!made) return made.error();
  a.memory = std::move(*made);
  std::byte* start = a.start = a.memory.bytes().data();
  const size_t rounded = a.bytes = a.memory.bytes().size();
  raise(largest_segment_, bytes);
  a.device = device;
  add(std::move(a));
  return std::unique_ptr<GpuMemory>(std::make_unique<Segment>(*this, start, rounded));
}
Result<std::unique_ptr<GpuMemory>> FakeGpus::map_segment(int device, std::vector<Fd> fds, size_t bytes) {
  if (defects_.no_peer_access)
    return make_error(twohopUnhandledCudaError, "fake GPU {} does not reach the others", device);
  const bool is_users = fds.size() == 2;
  if (is_users && device == defects_.maps_no_user_memory)
    return make_error(twohopUnhandledCudaError, "fake GPU {} maps no memory of the user's", device);
  // Windows once in a process, as CUDA's.
  if (!is_users) return map_window(std::move(fds[0]), bytes);
  struct stat st {};
  if (::fstat(fds[0].get(), &st) != 0) return system_error(errno, "cannot map a region");
  const auto size = static_cast<size_t>(st.st_size);
  void* at = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fds[0].get(), 0);
  if (at == MAP_FAILED) return system_error(errno, "cannot map a region");
  return std::unique_ptr<GpuMemory>(
      std::make_unique<Mapped>(static_cast<std::byte*>(at), size, std::move(fds[0]), live_));
}
Result<std::unique_ptr<GpuMemory>> FakeGpus::share_memory(int device, const void* address) {
  if (device == defects_.shares_no_user_memory)
    return make_error(twohopUnhandledCudaError, "fake GPU {} shares no memory of the user's", device);
  const std::lock_guard lock(mutex_);
  const Allocation* a = find(address);
  return std::unique_ptr<GpuMemory>(
      std::make_unique<Mapped>(a->start, std::max<size_t>(a->bytes, 1), Fd(::dup(a->fd())), nullptr));
}
/// One that no device takes, so that the next way has to be tried.
Result<Fd> FakeGpus::dma_buf(int device, std::span<std::byte> memory) {
  const std::lock_guard lock(mutex_);
  dma_bufs_[device].push_back(memory.size());
  return Result<Fd>(Fd(::memfd_create("fake-dma-buf", MFD_CLOEXEC)));
}
Result<std::shared_ptr<void>> FakeGpus::pin(int, std::span<std::byte> memory) {
  return std::shared_ptr<void>(memory.data(), [](void*) {});
}
Result<> FakeGpus::upload(int, std::byte* to, const void* from, size_t bytes) {
  std::memcpy(to, from, bytes);
  return {};
}
Result<std::unique_ptr<CopyEngine>> FakeGpus::make_copy_engine(int device) {
  if (device == defects_.device_without_engine)
    return make_error(twohopUnhandledCudaError, "fake GPU {} has no copy engine", device);
  return std::unique_ptr<CopyEngine>(std::make_unique<loop_test::FakeCopyEngine>(copies_));
}
Result<std::function<Result<>()>> FakeGpus::remote_writes_flush(int device, bool for_all_gpus) {
  if (for_all_gpus && device == defects_.device_without_flush)
    return make_error(twohopUnhandledCudaError, "fake GPU {} cannot be flushed", device);
  return std::function([this, for_all_gpus]() -> Result<> {
    ++flushes_[for_all_gpus];
    return {};
  });
}
Result<std::unique_ptr<GpuLauncher>> FakeGpus::make_launcher(int device) {
  return std::unique_ptr<GpuLauncher>(std::make_unique<FakeLauncher>(*this, device, defects_));
}

}  // namespace twohop::gpu_test
