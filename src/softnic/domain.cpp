// Joining and leaving the shared memory of a domain; removing what killed processes left behind.
#include "softnic/domain.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <mutex>

#include "softnic/clock.hpp"

namespace softnic {
namespace {

constexpr std::string_view kRoot = "/dev/shm/";

std::string prefix() {
  return "softnic-" + std::to_string(getuid()) + "-";
}

void remove_tree(const std::string& folder) {
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
}

// Folders of this user whose processes have all died.
void sweep_stale(const std::string& keep) {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(kRoot, ignored)) {
    std::string path = entry.path();
    if (path == keep || !entry.path().filename().string().starts_with(prefix())) continue;
    int fd = ::open((path + "/state").c_str(), O_RDWR | O_CLOEXEC);
    if (fd < 0) continue;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0) remove_tree(path);
    close(fd);
  }
}

void init_locks(SharedState* state) {
  state->lock.init();
  state->atomic_lock.init();
  for (SharedProcess& process : state->processes) process.life.init();
  for (SharedQp& qp : state->qps) qp.lock.init();
  for (SharedCq& cq : state->cqs) cq.lock.init();
}

/// A process may be stopped while it holds the lock: not waited for without end.
bool share_lock(int fd) {
  constexpr uint64_t kPatienceNs = 4'000'000'000;
  for (const uint64_t start = now_ns(); flock(fd, LOCK_SH | LOCK_NB) != 0; usleep(1000))
    if (now_ns() - start > kPatienceNs) return false;
  return true;
}

}  // namespace

Domain* Domain::join(const std::string& name, std::string* error) {
  auto* domain = new Domain;
  domain->folder_ = std::string(kRoot) + prefix() + name;
  sweep_stale(domain->folder_);
  for (int tries = 0; tries < 100; tries++) {
    error->clear();
    if (domain->open_locked(error)) return domain;
    if (!error->empty()) break;
    usleep(1000);
  }
  if (error->empty())
    *error = "softnic: " + domain->folder_ + " is used by another build of softnic; try another domain= in SOFTNIC";
  delete domain;
  return nullptr;
}

// False with no error: the last process left in between, try again.
bool Domain::open_locked(std::string* error) {
  mkdir(folder_.c_str(), 0700);
  fd_ = ::open((folder_ + "/state").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd_ < 0) {
    if (errno != ENOENT) *error = "softnic: " + folder_ + "/state: " + std::strerror(errno);
    return false;
  }
  bool first = flock(fd_, LOCK_EX | LOCK_NB) == 0;
  bool ready = !first || prepare(error);
  // Between the two locks another process may find nobody here and prepare again: harmless, nobody has joined yet.
  if (ready && !share_lock(fd_)) {
    *error = "softnic: a process prepares " + folder_ + " and does not get on with it: is it stopped?";
    ready = false;
  }
  struct stat found {};
  if (ready && fstat(fd_, &found) == 0 && found.st_nlink > 0 && map(error)) return true;
  if (state_) munmap(state_, kSegmentBytes);
  state_ = nullptr;
  close(fd_);
  fd_ = -1;
  return false;
}

bool Domain::prepare(std::string* error) {
  if (ftruncate(fd_, 0) != 0 || ftruncate(fd_, static_cast<off_t>(kSegmentBytes)) != 0 ||
      posix_fallocate(fd_, 0, static_cast<off_t>(kHeapOffset)) != 0) {
    *error = "softnic: no room for " + std::to_string(kHeapOffset >> 20) + " MiB in " + folder_ +
             ": free some of /dev/shm or enlarge it";
    return false;
  }
  if (!map(error) && !error->empty()) return false;
  init_locks(state_);
  for (auto& host : state_->ports)
    for (SharedPort& port : host) port.forced.store(-1);
  state_->next_id.store(1);
  state_->version.store(kLayoutVersion, std::memory_order_release);
  munmap(state_, kSegmentBytes);
  state_ = nullptr;
  return true;
}

// False with no error: not prepared yet by its first process, or left behind by another build.
bool Domain::map(std::string* error) {
  void* memory = mmap(nullptr, kSegmentBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd_, 0);
  if (memory == MAP_FAILED) {
    *error = "softnic: mmap " + folder_ + "/state: " + std::strerror(errno);
    return false;
  }
  state_ = static_cast<SharedState*>(memory);
  struct stat found {};
  if (fstat(fd_, &found) == 0 && static_cast<uint64_t>(found.st_size) == kSegmentBytes &&
      state_->version.load(std::memory_order_acquire) == kLayoutVersion)
    return true;
  return false;
}

void Domain::leave(bool keep_mapped) {
  if (flock(fd_, LOCK_EX | LOCK_NB) == 0) remove_tree(folder_);
  close(fd_);
  if (keep_mapped) return;
  munmap(state_, kSegmentBytes);
  delete this;
}

void Domain::forget() const {
  close(fd_);
}

std::optional<uint64_t> Domain::allocate(uint32_t pages) {
  std::lock_guard guard(state_->lock);
  uint8_t* used = state_->heap_used;
  uint32_t run = 0;
  for (uint32_t page = 0; page < kHeapPages; page++) {
    run = used[page] ? 0 : run + 1;
    if (run < pages) continue;
    uint32_t first = page + 1 - pages;
    uint64_t offset = kHeapOffset + uint64_t{first} * kPageBytes;
    // Without this, a full /dev/shm would be a SIGBUS at the first touch.
    if (posix_fallocate(fd_, static_cast<off_t>(offset), static_cast<off_t>(uint64_t{pages} * kPageBytes)) != 0)
      return std::nullopt;
    std::memset(used + first, 1, pages);
    return offset;
  }
  return std::nullopt;
}

void Domain::free(uint64_t offset, uint32_t pages) {
  if (pages == 0) return;
  std::lock_guard guard(state_->lock);
  madvise(at<char>(offset), uint64_t{pages} * kPageBytes, MADV_REMOVE);
  std::memset(state_->heap_used + (offset - kHeapOffset) / kPageBytes, 0, pages);
}

}  // namespace softnic
