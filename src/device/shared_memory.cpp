// memfd segments: made with seals that fix their size, so that a peer that truncates one cannot turn our reads into
// SIGBUS; mapped only when those seals are there.
#include "device/shared_memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <map>
#include <mutex>
#include <utility>

namespace twohop {

struct SharedMemory::Mapping {
  void* base;
  size_t size;
  ~Mapping() { munmap(base, size); }
};

namespace {

constexpr int kSizeSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
constexpr const char* kLimits =
    "memory comes from anonymous memory, not /dev/shm: check free memory, the container's (cgroup) memory limit, "
    "ulimit -v and ulimit -n, or lower TWOHOP_BUFFSIZE";

/// Whole pages, at least one; 0 when that is more than a file can hold.
size_t whole_pages(size_t bytes) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  if (bytes > size_t(INT64_MAX) - page) return 0;
  return bytes == 0 ? page : (bytes + page - 1) / page * page;
}

Result<> check_segment(int fd, size_t bytes) {
  const int seals = fcntl(fd, F_GET_SEALS);
  if (seals < 0) return system_error(errno, "the fd a local rank passed for its window is not a memfd segment");
  if ((seals & kSizeSeals) != kSizeSeals)
    return make_error(
        twohopRemoteError,
        "the memfd a local rank passed for its window has seals {:#x}, needed {:#x} (its size could change "
        "under us); do all ranks run the same twohop version?",
        seals, kSizeSeals);
  struct stat st {};
  if (fstat(fd, &st) != 0) return system_error(errno, "cannot read the size of a local rank's window");
  if (bytes > static_cast<uint64_t>(st.st_size))
    return make_error(twohopRemoteError,
                      "a local rank's window holds {} bytes, needed {}; do all ranks have the same TWOHOP_BUFFSIZE, "
                      "TWOHOP_CHUNK_BYTES and TWOHOP_NCHANNELS?",
                      st.st_size, bytes);
  return {};
}

}  // namespace

Result<SharedMemory> SharedMemory::create(size_t bytes) {
  const size_t size = whole_pages(bytes);
  if (size == 0)
    return make_error(twohopInvalidArgument, "shared memory of {} bytes: more than a file can hold", bytes);
  Fd fd(memfd_create("twohop-window", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) return system_error(errno, "cannot create a shared memory segment of {} bytes ({})", size, kLimits);
  if (ftruncate(fd.get(), static_cast<off_t>(size)) != 0)
    return system_error(errno, "cannot size a shared memory segment to {} bytes ({})", size, kLimits);
  if (fcntl(fd.get(), F_ADD_SEALS, kSizeSeals) != 0)
    return system_error(errno, "cannot seal a shared memory segment of {} bytes", size);
  return map(std::move(fd), size);
}

namespace {

/// What this process has mapped, by device and inode: ranks that are threads of one process share one mapping, so that
/// it costs address space once and a thread sanitizer sees that they touch the same memory.
class Mappings {
 public:
  Result<std::shared_ptr<SharedMemory::Mapping>> get(int fd, size_t size) {
    struct stat st {};
    if (fstat(fd, &st) != 0) return system_error(errno, "cannot identify a window's segment");
    const std::lock_guard lock(mutex_);
    std::weak_ptr<SharedMemory::Mapping>& known = by_inode_[{st.st_dev, st.st_ino}];
    if (auto mapping = known.lock(); mapping && mapping->size >= size) return mapping;
    void* base = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (base == MAP_FAILED) return system_error(errno, "cannot map {} bytes of shared memory ({})", size, kLimits);
    auto mapping = std::shared_ptr<SharedMemory::Mapping>(new SharedMemory::Mapping{base, size});
    known = mapping;
    std::erase_if(by_inode_, [](const auto& entry) { return entry.second.expired(); });
    return mapping;
  }

 private:
  std::mutex mutex_;
  std::map<std::pair<dev_t, ino_t>, std::weak_ptr<SharedMemory::Mapping>> by_inode_;
};

Mappings& mappings() {
  static auto* const all = new Mappings;  // never destroyed: communicators may outlive static destructors
  return *all;
}

}  // namespace

Result<SharedMemory> SharedMemory::map(Fd fd, size_t bytes) {
  if (auto ok = check_segment(fd.get(), bytes); !ok) return ok.error();
  SharedMemory memory;
  auto mapping = mappings().get(fd.get(), whole_pages(bytes));
  if (!mapping) return mapping.error();
  memory.mapping_ = std::move(*mapping);
  memory.fd_ = std::move(fd);
  return memory;
}

std::span<std::byte> SharedMemory::bytes() const {
  if (!mapping_) return {};
  return {static_cast<std::byte*>(mapping_->base), mapping_->size};
}

}  // namespace twohop
