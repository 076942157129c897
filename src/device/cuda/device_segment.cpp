// See device_segment.hpp.
#include "device/cuda/device_segment.hpp"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <map>
#include <mutex>
#include <random>
#include <utility>
#include <vector>

#include "device/cuda/segment_ticket.hpp"

namespace twohop {

/// Undoes what was done, in reverse.
struct DeviceSegment::Mapping {
  explicit Mapping(const CudaDriver& d) : driver(d) {}
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping() {
    if (ticket.kind == uint32_t(SegmentKind::kIpcHandle)) {
      if (address == 0 || borrowed) return;
      own ? free_when_unused() : (void)driver.ipc_close_mem_handle(address);
      return;  // `hold` goes after the mapping
    }
    if (mapped) (void)driver.mem_unmap(address, ticket.bytes);
    if (address != 0) (void)driver.mem_address_free(address, ticket.bytes);
    if (handle_held) (void)driver.mem_release(handle);
  }

  const CudaDriver& driver;
  SegmentTicket ticket;
  CUdeviceptr address = 0;
  CUmemGenericAllocationHandle handle = 0;
  int device = -1;  // kIpcHandle: whose memory it is, or for which it was mapped
  bool own = false, borrowed = false, mapped = false, handle_held = false;
  Fd hold;     // kIpcHandle: the end of the pipe that others get, or got
  Fd holders;  // own: shows when nobody has that end any more

 private:
  void free_when_unused();
};

namespace {

using Mapping = DeviceSegment::Mapping;

/// IPC memory whose owner has let go of it while others still map it.
class Orphans {
 public:
  struct Orphan {
    const CudaDriver* driver;
    CUdeviceptr address;
    Fd holders;
  };
  void add(Orphan orphan) {
    const std::lock_guard lock(mutex_);
    all_.push_back(std::move(orphan));
    free_unused();
  }
  void look() {
    const std::lock_guard lock(mutex_);
    free_unused();
  }

 private:
  void free_unused() {
    std::erase_if(all_, [](const Orphan& o) {
      pollfd end{o.holders.get(), POLLIN, 0};
      const bool held = o.holders && (poll(&end, 1, 0) != 1 || (end.revents & POLLHUP) == 0);
      if (!held) (void)o.driver->mem_free(o.address);
      return !held;
    });
  }
  std::mutex mutex_;
  std::vector<Orphan> all_;
};
Orphans& orphans() {
  static Orphans& o = *new Orphans;
  return o;
}

uint64_t this_process() {
  static const uint64_t number = [] {
    std::random_device random;
    return uint64_t(random()) << 32 | random();
  }();
  return number;
}

/// The segments that this process has mapped, by who made them: ranks that are threads share one mapping.
class Known {
 public:
  template <class Make>
  Result<std::shared_ptr<Mapping>> get(uint64_t process, uint64_t number, Make make) {
    const std::lock_guard lock(mutex_);
    std::weak_ptr<Mapping>& known = known_[{process, number}];
    if (auto mapping = known.lock()) return mapping;
    auto made = make();
    if (made) known = *made;
    return made;
  }
  /// The segment of ours in which `address` lies.
  std::shared_ptr<Mapping> find(CUdeviceptr address) {
    const std::lock_guard lock(mutex_);
    for (const auto& [key, known] : known_)
      if (auto m = known.lock(); m && m->own && address >= m->address && address - m->address < m->ticket.bytes)
        return m;
    return nullptr;
  }
  void add(const std::shared_ptr<Mapping>& mapping) {
    const std::lock_guard lock(mutex_);
    std::erase_if(known_, [](const auto& entry) { return entry.second.expired(); });
    known_[{mapping->ticket.process, mapping->ticket.number}] = mapping;
  }

 private:
  std::mutex mutex_;
  std::map<std::pair<uint64_t, uint64_t>, std::weak_ptr<Mapping>> known_;
};
Known& known() {
  static Known k;
  return k;
}

/// Numbers a segment of this process.
void number(Mapping& m) {
  static std::atomic<uint64_t> segments{0};
  m.ticket.process = this_process();
  m.ticket.number = ++segments;
}

bool has(const CudaDriver& driver, int device, CUdevice_attribute attribute) {
  int value = 0;
  return driver.device_get_attribute(&value, attribute, device) == CUDA_SUCCESS && value != 0;
}

CUmemAllocationProp properties(const CudaDriver& driver, int device) {
  CUmemAllocationProp p{};
  p.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  p.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  p.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
  // Refused where it is not offered (vGPU, WSL, some virtual machines).
  p.allocFlags.gpuDirectRDMACapable = has(driver, device, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED);
  return p;
}

bool exports_file_descriptors(const CudaDriver& driver, int device) {
  return has(driver, device, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED) &&
         has(driver, device, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED);
}

/// Lets `device` use a mapping; each GPU that does has to be told.
Result<> allow(const Mapping& m, int device) {
  CUmemAccessDesc access{};
  access.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  if (CUresult r = m.driver.mem_set_access(m.address, m.ticket.bytes, &access, 1); r != CUDA_SUCCESS)
    return driver_error(r, "GPU {} may not use {} bytes of another rank's GPU (P2P)", device, m.ticket.bytes);
  return {};
}

Result<> map_handle(Mapping& m, int device) {
  if (CUresult r = m.driver.mem_address_reserve(&m.address, m.ticket.bytes, 0, 0, 0); r != CUDA_SUCCESS)
    return driver_error(r, "cannot reserve {} bytes of addresses for GPU memory", m.ticket.bytes);
  if (CUresult r = m.driver.mem_map(m.address, m.ticket.bytes, 0, m.handle, 0); r != CUDA_SUCCESS)
    return driver_error(r, "cannot map {} bytes of GPU memory", m.ticket.bytes);
  m.mapped = true;
  return allow(m, device);
}

Result<> create_by_handle(Mapping& m, int device, size_t bytes) {
  const CUmemAllocationProp p = properties(m.driver, device);
  size_t granularity = 1;
  if (CUresult r = m.driver.mem_granularity(&granularity, &p, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED); r != CUDA_SUCCESS)
    return driver_error(r, "cannot ask GPU {} for its allocation granularity", device);
  m.ticket.bytes = (bytes + granularity - 1) / granularity * granularity;
  if (CUresult r = m.driver.mem_create(&m.handle, m.ticket.bytes, &p, 0); r != CUDA_SUCCESS)
    return driver_error(r, "cannot allocate {} bytes on GPU {}", m.ticket.bytes, device);
  m.handle_held = true;
  return map_handle(m, device);
}

/// Zeros, and waits for them: filling device memory is asynchronous, and in the default stream it would come after all
/// that is enqueued there, over what others have written by then.
Result<> clear(const Mapping& m, CUstream stream) {
  CUresult r = m.driver.memset_d8_async(m.address, 0, m.ticket.bytes, stream);
  if (r == CUDA_SUCCESS) r = m.driver.stream_synchronize(stream);
  if (r != CUDA_SUCCESS) return driver_error(r, "cannot clear {} bytes of GPU {}", m.ticket.bytes, m.device);
  return {};
}

Result<> make_ipc_handle(Mapping& m) {
  if (CUresult r = m.driver.ipc_get_mem_handle(&m.ticket.ipc, m.address); r != CUDA_SUCCESS)
    return driver_error(r, "GPU {}'s memory cannot be shared with other processes (CUDA IPC)", m.device);
  int ends[2] = {};
  if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return system_error(errno, "cannot open a pipe");
  m.holders = Fd(ends[0]);
  m.hold = Fd(ends[1]);
  return {};
}

Result<> create_by_ipc(Mapping& m, int device, size_t bytes) {
  m.ticket.bytes = bytes;
  if (CUresult r = m.driver.mem_alloc(&m.address, bytes); r != CUDA_SUCCESS)
    return driver_error(r, "cannot allocate {} bytes on GPU {}", bytes, device);
  return make_ipc_handle(m);
}

/// Memory of an IPC handle is another GPU's for all contexts but the one that it was made or opened in.
Result<> allow_peer(const Mapping& m, int device) {
  if (m.device == device) return {};
  if (!m.own && !m.borrowed)
    return make_error(twohopUnhandledCudaError,
                      "GPU memory of another process is mapped for GPU {} already, and cannot be for GPU {} too (CUDA "
                      "IPC): use one GPU per process",
                      m.device, device);
  CUcontext owner = nullptr;
  if (CUresult r = m.driver.primary_ctx_retain(&owner, m.device); r != CUDA_SUCCESS)
    return driver_error(r, "cannot use GPU {}", m.device);
  const CUresult enabled = m.driver.ctx_enable_peer_access(owner, 0);
  (void)m.driver.primary_ctx_release(m.device);  // its memory keeps it in use
  if (enabled != CUDA_SUCCESS && enabled != CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED)
    return driver_error(enabled, "GPU {} may not use the memory of GPU {} (P2P)", device, m.device);
  return {};
}

Result<std::shared_ptr<Mapping>> import(const CudaDriver& driver, int device, const SegmentTicket& ticket,
                                        std::vector<Fd>& fds) {
  auto m = std::make_shared<Mapping>(driver);
  m->ticket = ticket;
  m->device = device;
  if (fds.size() != 2)
    return make_error(twohopRemoteError, "a local rank passed {} descriptors for its GPU memory, expected 2",
                      fds.size());
  if (ticket.kind == uint32_t(SegmentKind::kIpcHandle)) {
    if (CUresult r = driver.ipc_open_mem_handle(&m->address, ticket.ipc, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
        r != CUDA_SUCCESS)
      return driver_error(r, "cannot map another rank's GPU memory (CUDA IPC)");
    m->hold = std::move(fds[1]);
    return m;
  }
  auto* os_handle = reinterpret_cast<void*>(static_cast<uintptr_t>(fds[1].get()));
  if (CUresult r = driver.mem_import(&m->handle, os_handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
      r != CUDA_SUCCESS)
    return driver_error(r, "cannot import another rank's GPU memory");
  m->handle_held = true;
  if (auto mapped = map_handle(*m, device); !mapped) return mapped.error();
  return m;
}

}  // namespace

void DeviceSegment::Mapping::free_when_unused() {
  hold = Fd();
  orphans().add({&driver, address, std::move(holders)});
}

const char* segment_kind_name(SegmentKind kind) {
  return kind == SegmentKind::kFileDescriptor ? "file descriptor" : "CUDA IPC handle";
}

Result<DeviceSegment> DeviceSegment::create(const CudaDriver& driver, int device, size_t bytes, CUstream stream) {
  orphans().look();
  auto m = std::make_shared<Mapping>(driver);
  const bool by_handle = exports_file_descriptors(driver, device);
  m->own = true;
  m->ticket.kind = uint32_t(by_handle ? SegmentKind::kFileDescriptor : SegmentKind::kIpcHandle);
  m->device = device;
  number(*m);
  if (auto made = by_handle ? create_by_handle(*m, device, bytes) : create_by_ipc(*m, device, bytes); !made)
    return made.error();
  if (auto cleared = clear(*m, stream); !cleared) return cleared.error();
  known().add(m);
  DeviceSegment segment;
  segment.mapping_ = std::move(m);
  return Result<DeviceSegment>(std::move(segment));
}

Result<DeviceSegment> DeviceSegment::share(const CudaDriver& driver, const void* address) {
  orphans().look();
  const auto at = reinterpret_cast<CUdeviceptr>(address);
  DeviceSegment segment;
  segment.mapping_ = known().find(at);
  if (segment.mapping_) return Result<DeviceSegment>(std::move(segment));
  auto m = std::make_shared<Mapping>(driver);
  m->borrowed = true;
  m->ticket.kind = uint32_t(SegmentKind::kIpcHandle);
  number(*m);
  if (CUresult r = driver.mem_get_address_range(&m->address, &m->ticket.bytes, at); r != CUDA_SUCCESS)
    return driver_error(r, "cannot find the allocation of device address {}", address);
  if (CUresult r = driver.pointer_get_attribute(&m->device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, at); r != CUDA_SUCCESS)
    return driver_error(r, "cannot ask whose memory {} is", address);
  if (auto made = make_ipc_handle(*m); !made) return made.error();
  known().add(m);
  segment.mapping_ = std::move(m);
  return Result<DeviceSegment>(std::move(segment));
}

Result<std::vector<Fd>> DeviceSegment::export_fds() const {
  std::vector<Fd> fds;
  auto ticket = write_ticket(mapping_->ticket);
  if (!ticket) return ticket.error();
  fds.push_back(std::move(*ticket));
  if (kind() == SegmentKind::kIpcHandle) {
    fds.emplace_back(fcntl(mapping_->hold.get(), F_DUPFD_CLOEXEC, 0));
    if (!fds.back()) return system_error(errno, "cannot duplicate a descriptor");
    return Result<std::vector<Fd>>(std::move(fds));
  }
  int fd = -1;
  if (CUresult r = mapping_->driver.mem_export(&fd, mapping_->handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
      r != CUDA_SUCCESS)
    return driver_error(r, "cannot export {} bytes of GPU memory", size());
  fds.emplace_back(fd);
  return Result<std::vector<Fd>>(std::move(fds));
}

Result<DeviceSegment> DeviceSegment::map(const CudaDriver& driver, int device, std::vector<Fd> fds, size_t bytes) {
  orphans().look();
  if (fds.empty()) return make_error(twohopRemoteError, "a local rank passed no descriptor for its GPU memory");
  auto ticket = read_ticket(fds[0].get());
  if (!ticket) return ticket.error();
  if (ticket->bytes < bytes)
    return make_error(
        twohopRemoteError,
        "a local rank's GPU memory holds {} bytes, needed {}; do all ranks have the same TWOHOP_BUFFSIZE, "
        "TWOHOP_CHUNK_BYTES and TWOHOP_NCHANNELS?",
        ticket->bytes, bytes);
  bool fresh = false;
  auto mapping = known().get(ticket->process, ticket->number, [&] {
    fresh = true;
    return import(driver, device, *ticket, fds);
  });
  if (!mapping) return mapping.error();
  if (!fresh) {
    const bool by_handle = (*mapping)->ticket.kind == uint32_t(SegmentKind::kFileDescriptor);
    if (auto ok = by_handle ? allow(**mapping, device) : allow_peer(**mapping, device); !ok) return ok.error();
  }
  DeviceSegment segment;
  segment.mapping_ = std::move(*mapping);
  return Result<DeviceSegment>(std::move(segment));
}

std::byte* DeviceSegment::data() const {
  return reinterpret_cast<std::byte*>(mapping_->address);
}
size_t DeviceSegment::size() const {
  return mapping_->ticket.bytes;
}
SegmentKind DeviceSegment::kind() const {
  return static_cast<SegmentKind>(mapping_->ticket.kind);
}

}  // namespace twohop
