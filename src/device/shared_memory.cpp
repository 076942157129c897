// memfd segments: made with seals that fix their size, so that a peer that truncates one cannot turn our reads into
// SIGBUS; mapped only when those seals are there.
#include "device/shared_memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

namespace twohop {
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

Result<void*> map_pages(int fd, size_t bytes) {
  void* base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (base == MAP_FAILED) return system_error(errno, "cannot map {} bytes of shared memory ({})", bytes, kLimits);
  return base;
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

Result<SharedMemory> SharedMemory::map(Fd fd, size_t bytes) {
  if (auto ok = check_segment(fd.get(), bytes); !ok) return ok.error();
  SharedMemory memory;
  memory.size_ = whole_pages(bytes);
  auto base = map_pages(fd.get(), memory.size_);
  if (!base) return base.error();
  memory.base_ = *base;
  memory.fd_ = std::move(fd);
  return memory;
}

SharedMemory::SharedMemory(SharedMemory&& o) noexcept
    : base_(std::exchange(o.base_, nullptr)), size_(std::exchange(o.size_, 0)), fd_(std::move(o.fd_)) {}

SharedMemory& SharedMemory::operator=(SharedMemory&& o) noexcept {
  if (this == &o) return *this;
  if (base_ != nullptr) munmap(base_, size_);
  base_ = std::exchange(o.base_, nullptr);
  size_ = std::exchange(o.size_, 0);
  fd_ = std::move(o.fd_);
  return *this;
}

SharedMemory::~SharedMemory() {
  if (base_ != nullptr) munmap(base_, size_);
}

}  // namespace twohop
