// See segment_ticket.hpp.
#include "device/cuda/segment_ticket.hpp"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "device/cuda/device_segment.hpp"

namespace twohop {

Result<Fd> write_ticket(const SegmentTicket& ticket) {
  Fd fd(memfd_create("twohop-ticket", MFD_CLOEXEC));
  if (!fd) return system_error(errno, "cannot create the ticket of a device segment");
  if (write(fd.get(), &ticket, sizeof ticket) != ssize_t(sizeof ticket))
    return system_error(errno, "cannot write the ticket of a device segment");
  return Result<Fd>(std::move(fd));
}

Result<SegmentTicket> read_ticket(int fd) {
  SegmentTicket ticket;
  struct stat st {};
  if (fstat(fd, &st) != 0) return system_error(errno, "cannot read the ticket that a local rank passed");
  const ssize_t got = pread(fd, &ticket, sizeof ticket, 0);
  if (st.st_size != off_t(sizeof ticket) || got != ssize_t(sizeof ticket))
    return make_error(twohopRemoteError, "a local rank passed a ticket of {} bytes for its GPU memory, expected {}",
                      st.st_size, sizeof ticket);
  if (ticket.version != 1 || ticket.kind > uint32_t(SegmentKind::kIpcHandle))
    return make_error(twohopRemoteError,
                      "a local rank passed a ticket of version {}, kind {}; do all ranks run the same twohop version?",
                      ticket.version, ticket.kind);
  return ticket;
}

}  // namespace twohop
