// What travels between the ranks of a node about a device segment: a small record in a memfd, so that it goes over the
// same socket as file descriptors.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "base/result.hpp"
#include "base/socket.hpp"

namespace twohop {

struct SegmentTicket {
  uint32_t version = 1;
  uint32_t kind = 0;     // SegmentKind
  uint64_t bytes = 0;    // of the allocation
  uint64_t process = 0;  // a random number of the process that made it
  uint64_t number = 0;   // of the segment in that process
  CUipcMemHandle ipc{};  // kIpcHandle
};
static_assert(sizeof(SegmentTicket) == 96);

Result<Fd> write_ticket(const SegmentTicket& ticket);
/// Takes nothing on trust: the size, the version and the kind are checked.
Result<SegmentTicket> read_ticket(int fd);

}  // namespace twohop
