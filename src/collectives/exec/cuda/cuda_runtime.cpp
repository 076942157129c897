// See cuda_runtime.hpp. What is set up once; launching is cuda_launcher.cpp's.
#include "collectives/exec/cuda/cuda_runtime.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>

#include "collectives/exec/cuda/remote_writes.hpp"
#include "collectives/exec/cuda/side_stream.hpp"
#include "device/cuda/cuda_driver.hpp"
#include "device/cuda/cuda_error.hpp"
#include "device/cuda/device_segment.hpp"
#include "topology/nvml.hpp"

namespace twohop {
namespace {

class DeviceMemory : public GpuMemory {
 public:
  DeviceMemory(int device, std::byte* data, size_t bytes) : device_(device), data_(data), bytes_(bytes) {}
  ~DeviceMemory() override {
    const OnDevice on(device_);
    (void)cudaFree(data_);
  }
  std::byte* data() const override { return data_; }
  size_t size() const override { return bytes_; }

 private:
  int device_;
  std::byte* data_;
  size_t bytes_;
};

class PinnedMemory : public GpuMemory {
 public:
  PinnedMemory(int device, std::byte* data, size_t bytes) : device_(device), data_(data), bytes_(bytes) {}
  ~PinnedMemory() override {
    const OnDevice on(device_);
    (void)cudaFreeHost(data_);
  }
  std::byte* data() const override { return data_; }
  size_t size() const override { return bytes_; }

 private:
  int device_;
  std::byte* data_;
  size_t bytes_;
};

class Segment : public GpuMemory {
 public:
  Segment(int device, DeviceSegment segment) : device_(device), segment_(std::move(segment)) {}
  ~Segment() override {
    const OnDevice on(device_);
    segment_ = DeviceSegment();
  }
  std::byte* data() const override { return segment_.data(); }
  size_t size() const override { return segment_.size(); }
  Result<std::vector<Fd>> export_fds() const override {
    const OnDevice on(device_);
    return segment_.export_fds();
  }

 private:
  int device_;
  DeviceSegment segment_;
};

/// Host memory made known to CUDA. Ranks that are threads map a segment once, and CUDA takes an address once.
class Registered {
 public:
  /// Pre: OnDevice.
  static Result<std::shared_ptr<void>> get(int device, std::span<std::byte> memory) {
    static std::mutex& mutex = *new std::mutex;
    static auto& all = *new std::map<std::byte*, std::weak_ptr<void>>;
    const std::lock_guard lock(mutex);
    if (auto known = all[memory.data()].lock()) return known;
    constexpr unsigned kFlags = cudaHostRegisterPortable | cudaHostRegisterMapped;
    if (cudaError_t e = cudaHostRegister(memory.data(), memory.size(), kFlags); e != cudaSuccess)
      return cuda_error(e, "cannot make {} bytes of host memory reachable for GPUs (is RLIMIT_MEMLOCK large enough?)",
                        memory.size());
    std::shared_ptr<void> made(memory.data(), [device](void* at) {
      const OnDevice on(device);
      (void)cudaHostUnregister(at);
    });
    void* seen = nullptr;
    if (cudaError_t e = cudaHostGetDevicePointer(&seen, memory.data(), 0); e != cudaSuccess || seen != memory.data())
      return make_error(twohopUnhandledCudaError, "the GPU sees host memory {} at another address, {}",
                        static_cast<void*>(memory.data()), seen);
    all[memory.data()] = made;
    return made;
  }
};

/// One of each GPU for the life of the process, made with the first memory or upload, which is a communicator's init:
/// to make one may wait for kernels that run. Pre: OnDevice.
Result<const SideStream*> upload_stream(int device) {
  static std::mutex& mutex = *new std::mutex;
  static auto& all = *new std::map<int, SideStream>;
  const std::lock_guard lock(mutex);
  if (const auto it = all.find(device); it != all.end()) return &it->second;
  auto made = SideStream::create();
  if (!made) return made.error();
  return &all.emplace(device, std::move(*made)).first->second;
}

}  // namespace

Result<MemoryInfo> CudaRuntime::memory_info(const void* address) {
  return twohop::memory_info(address);
}

Result<std::optional<int>> CudaRuntime::current_device(bool wake) {
  int device = 0;
  if (cudaError_t e = cudaGetDevice(&device); e != cudaSuccess) return cuda_error(e, "cannot ask for the current GPU");
  auto driver = cuda_driver();
  if (!driver) return driver.error();
  unsigned flags = 0;
  int active = 0;
  if (CUresult r = (*driver)->primary_ctx_get_state(device, &flags, &active); r != CUDA_SUCCESS)
    return driver_error(r, "cannot ask whether GPU {} is in use", device);
  if (active != 0) return std::optional(device);
  if (!wake) return std::optional<int>();
  if (cudaError_t e = cudaSetDevice(device); e != cudaSuccess) return cuda_error(e, "cannot use GPU {}", device);
  return std::optional(device);
}

Result<std::string> CudaRuntime::device_identity(int device) {
  cudaDeviceProp properties{};
  if (cudaError_t e = cudaGetDeviceProperties(&properties, device); e != cudaSuccess)
    return cuda_error(e, "cannot ask GPU {} what it is", device);
  // As nvidia-smi -L prints it, and NVML takes it.
  std::string text = "GPU-";
  for (size_t i = 0; i < sizeof properties.uuid.bytes; ++i)
    text += fmt::format("{}{:02x}", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
                        static_cast<unsigned char>(properties.uuid.bytes[i]));
  return text;
}

/// CUDA knows the GPUs that this process sees, NVML all of the machine.
Result<> CudaRuntime::check_peer_access(int device, std::span<const std::string> peers) {
  const OnDevice on(device);
  auto mine = device_identity(device);
  if (!mine) return mine.error();
  for (int other = 0; other < cuda_status().devices; ++other) {
    auto identity = device_identity(other);
    if (!identity) return identity.error();
    if (other == device || std::find(peers.begin(), peers.end(), *identity) == peers.end()) continue;
    int can = 0;
    if (cudaError_t e = cudaDeviceCanAccessPeer(&can, device, other); e != cudaSuccess)
      return cuda_error(e, "cannot ask whether GPU {} reaches GPU {}", device, other);
    if (can == 0)
      return make_error(twohopUnhandledCudaError, "GPU {} does not reach GPU {} (cudaDeviceCanAccessPeer)", device,
                        other);
  }
  const std::string why = topology::why_no_peer_access("libnvidia-ml.so.1", *mine, peers);
  return why.empty() ? Result<>() : Result<>(make_error(twohopUnhandledCudaError, "{}", why));
}

Result<std::unique_ptr<GpuMemory>> CudaRuntime::device_memory(int device, size_t bytes) {
  const OnDevice on(device);
  void* data = nullptr;
  if (cudaError_t e = cudaMalloc(&data, bytes); e != cudaSuccess) {
    (void)cudaGetLastError();
    return cuda_error(e, "cannot allocate {} bytes on GPU {}", bytes, device);
  }
  auto memory = std::make_unique<DeviceMemory>(device, static_cast<std::byte*>(data), bytes);
  auto side = upload_stream(device);
  if (!side) return side.error();
  if (cudaError_t e = cudaMemsetAsync(data, 0, bytes, (*side)->get()); e != cudaSuccess)
    return cuda_error(e, "cannot clear {} bytes on GPU {}", bytes, device);
  if (auto done = (*side)->wait(); !done) return done.error();
  return std::unique_ptr<GpuMemory>(std::move(memory));
}

Result<std::unique_ptr<GpuMemory>> CudaRuntime::host_memory(int device, size_t bytes) {
  const OnDevice on(device);
  void* data = nullptr;
  if (cudaError_t e = cudaHostAlloc(&data, bytes, cudaHostAllocPortable | cudaHostAllocMapped); e != cudaSuccess) {
    (void)cudaGetLastError();
    return cuda_error(e, "cannot allocate {} bytes of pinned host memory", bytes);
  }
  std::memset(data, 0, bytes);
  return std::unique_ptr<GpuMemory>(std::make_unique<PinnedMemory>(device, static_cast<std::byte*>(data), bytes));
}

Result<std::unique_ptr<GpuMemory>> CudaRuntime::make_segment(int device, size_t bytes) {
  auto driver = cuda_driver();
  if (!driver) return driver.error();
  const OnDevice on(device);
  auto side = upload_stream(device);
  if (!side) return side.error();
  auto made = DeviceSegment::create(**driver, device, bytes, (*side)->get());
  if (!made) return made.error();
  return std::unique_ptr<GpuMemory>(std::make_unique<Segment>(device, std::move(*made)));
}

Result<std::unique_ptr<GpuMemory>> CudaRuntime::map_segment(int device, std::vector<Fd> fds, size_t bytes) {
  auto driver = cuda_driver();
  if (!driver) return driver.error();
  const OnDevice on(device);
  auto mapped = DeviceSegment::map(**driver, device, std::move(fds), bytes);
  if (!mapped) return mapped.error();
  return std::unique_ptr<GpuMemory>(std::make_unique<Segment>(device, std::move(*mapped)));
}

Result<std::unique_ptr<GpuMemory>> CudaRuntime::share_memory(int device, const void* address) {
  auto driver = cuda_driver();
  if (!driver) return driver.error();
  const OnDevice on(device);
  auto shared = DeviceSegment::share(**driver, address);
  if (!shared) return shared.error();
  return std::unique_ptr<GpuMemory>(std::make_unique<Segment>(device, std::move(*shared)));
}

Result<Fd> CudaRuntime::dma_buf(int device, std::span<std::byte> segment) {
  auto driver = cuda_driver();
  if (!driver) return driver.error();
  const OnDevice on(device);
  int supported = 0;
  if (CUresult r = (*driver)->device_get_attribute(&supported, CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED, device);
      r != CUDA_SUCCESS)
    return driver_error(r, "cannot ask GPU {} for dma-buf", device);
  if (supported == 0)
    return make_error(twohopUnhandledCudaError, "GPU {} offers none (it needs the open kernel modules)", device);
  int fd = -1;
  if (CUresult r = (*driver)->mem_get_handle_for_address_range(&fd, reinterpret_cast<CUdeviceptr>(segment.data()),
                                                               segment.size(), CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
      r != CUDA_SUCCESS)
    return driver_error(r, "GPU {} gives none for {} bytes", device, segment.size());
  return Result<Fd>(Fd(fd));
}

Result<std::shared_ptr<void>> CudaRuntime::pin(int device, std::span<std::byte> memory) {
  const OnDevice on(device);
  return Registered::get(device, memory);
}

Result<> CudaRuntime::upload(int device, std::byte* to, const void* from, size_t bytes) {
  const OnDevice on(device);
  auto side = upload_stream(device);
  if (!side) return side.error();
  if (cudaError_t e = cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, (*side)->get()); e != cudaSuccess)
    return cuda_error(e, "cannot copy {} bytes to GPU {}", bytes, device);
  return (*side)->wait();
}

Result<std::function<Result<>()>> CudaRuntime::remote_writes_flush(int device, bool for_all_gpus) {
  int ordering = 0, options = 0;
  for (auto [value, attribute] : {std::pair(&ordering, cudaDevAttrGPUDirectRDMAWritesOrdering),
                                  std::pair(&options, cudaDevAttrGPUDirectRDMAFlushWritesOptions)})
    if (cudaError_t e = cudaDeviceGetAttribute(value, attribute, device); e != cudaSuccess)
      return cuda_error(e, "cannot ask GPU {} who sees what the network wrote to it", device);
  switch (remote_writes(ordering, options, for_all_gpus)) {
    case RemoteWrites::kVisible:
      return std::function<Result<>()>();
    case RemoteWrites::kNeedFlush:
      break;
    case RemoteWrites::kCannotBeFlushed:
      return make_error(twohopUnhandledCudaError,
                        "{} would not see in order what the network writes to GPU {} (ordering {}), and it cannot be "
                        "flushed (options {})",
                        for_all_gpus ? "other GPUs" : "kernels", device, ordering, options);
  }
  const auto scope = for_all_gpus ? cudaFlushGPUDirectRDMAWritesToAllDevices : cudaFlushGPUDirectRDMAWritesToOwner;
  return std::function([device, scope]() -> Result<> {
    const OnDevice on(device);
    if (cudaError_t e = cudaDeviceFlushGPUDirectRDMAWrites(cudaFlushGPUDirectRDMAWritesTargetCurrentDevice, scope);
        e != cudaSuccess)
      return cuda_error(e, "cannot flush what the network wrote to GPU {}", device);
    return {};
  });
}

GpuRuntime* built_in_gpu_runtime() {
  if (cuda_status().devices == 0) return nullptr;
  static CudaRuntime runtime;
  return &runtime;
}

}  // namespace twohop
