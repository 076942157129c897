// How do bytes get from one process into another? By process_vm_writev and readv of the sender; within a process by
// memcpy.
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "softnic/datapath.hpp"

namespace softnic {
namespace {

// Cuts the first `bytes` of the segments into iovecs, leaving out `skip` bytes at the front.
uint32_t to_iovecs(const Segments& segments, uint64_t skip, uint64_t bytes, iovec* out) {
  uint32_t count = 0;
  uint64_t end = bytes;
  for (uint32_t i = 0; i < segments.count && end > 0; i++) {
    uint64_t take = std::min(segments.list[i].length, end);
    end -= take;
    uint64_t skipped = std::min(skip, take);
    skip -= skipped;
    if (take > skipped)
      out[count++] = {reinterpret_cast<void*>(segments.list[i].address + skipped), static_cast<size_t>(take - skipped)};
  }
  return count;
}

Moved failed(pid_t peer) {
  if (errno == ESRCH) return Moved::kPeerGone;
  if (errno != EPERM) return Moved::kFault;
  static std::atomic<bool> told{false};
  if (!told.exchange(true))
    std::fprintf(stderr,
                 "softnic: process %d may not be written to (EPERM): run all processes as one user, and allow ptrace "
                 "among them\n",
                 static_cast<int>(peer));
  return Moved::kPeerGone;
}

void copy_within(const Segments& from, const Segments& to, uint64_t bytes) {
  uint64_t from_at = 0, to_at = 0;
  for (uint32_t f = 0, t = 0; bytes > 0;) {
    uint64_t part = std::min({from.list[f].length - from_at, to.list[t].length - to_at, bytes});
    std::memmove(reinterpret_cast<void*>(to.list[t].address + to_at),
                 reinterpret_cast<const void*>(from.list[f].address + from_at), part);
    bytes -= part;
    from_at += part;
    to_at += part;
    if (from_at == from.list[f].length) f++, from_at = 0;
    if (to_at == to.list[t].length) t++, to_at = 0;
  }
}

}  // namespace

Moved move_bytes(pid_t peer, const Segments& here, const Segments& there, uint64_t bytes, Direction direction) {
  if (peer == getpid()) {
    direction == Direction::kToPeer ? copy_within(here, there, bytes) : copy_within(there, here, bytes);
    return Moved::kAll;
  }
  for (uint64_t moved = 0; moved < bytes;) {
    iovec local[kMaxSge], remote[kMaxSge];
    uint32_t local_count = to_iovecs(here, moved, bytes, local), remote_count = to_iovecs(there, moved, bytes, remote);
    ssize_t part = direction == Direction::kToPeer
                       ? process_vm_writev(peer, local, local_count, remote, remote_count, 0)
                       : process_vm_readv(peer, local, local_count, remote, remote_count, 0);
    if (part < 0) return failed(peer);
    if (part == 0) return Moved::kFault;
    moved += static_cast<uint64_t>(part);
  }
  return Moved::kAll;
}

}  // namespace softnic
