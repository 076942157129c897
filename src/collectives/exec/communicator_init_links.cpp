// How do a rank's links get connected?
#include <poll.h>

#include <algorithm>
#include <utility>

#include "collectives/exec/communicator_init.hpp"

namespace twohop {

/// A step that waits for connections of other ranks. It ends when one of them is lost or gives up; a connection that
/// breaks is then not the cause, which comes over the control channel, a little later perhaps.
Result<> CommunicatorInit::while_listening(Result<> (CommunicatorInit::*step)()) {
  constexpr std::chrono::milliseconds kGraceTime{500};
  if (comm_->cluster_.nnodes() == 1) return (this->*step)();
  auto alarm = comm_->control_->set_alarm();
  if (!alarm) return alarm.error();
  alarm_fd_ = (*alarm)->fd();
  auto done = (this->*step)();
  const int fd = std::exchange(alarm_fd_, -1);
  if (done) return done;
  if (done.error().scope == Scope::kPeer)
    (void)wait_for_fd(fd, POLLIN, std::min(deadline_, std::chrono::steady_clock::now() + kGraceTime));
  const auto cause = (*alarm)->cause();
  return cause ? Result<>(*cause) : done;
}

Result<> CommunicatorInit::connect_links() {
  if (comm_->cluster_.nnodes() == 1) {
    comm_->endpoint_.reset();
    return {};
  }
  NodeGroup& node = *comm_->node_;
  // Windows and inboxes: all that puts are sent from and arrive in.
  std::byte* first = node.window(node.me(), 0);
  const auto bytes = static_cast<size_t>(node.inbox(node.me(), tables_[node.me()].in_inboxes()) - first);
  if (auto r = comm_->endpoint_->register_memory({first, bytes}); !r) return r;
  return connect_all(
      *comm_->endpoint_, [&](size_t number) { return node.inbox(node.me(), number); }, addresses_);
}

/// `inbox_of`: where the inbox of a number lies, its half of even calls first.
Result<> CommunicatorInit::connect_all(Endpoint& endpoint, const std::function<std::byte*(size_t)>& inbox_of,
                                       std::span<const Bytes> addresses) {
  const LinkTable& links = tables_[comm_->node_->me()];
  const size_t inbox_bytes = 2 * comm_->limits_.inbox_bytes;
  std::vector<OutLink> out;
  std::vector<InLink> in;
  // A link's slots are used by two calls at once at most, one in each half of its inbox.
  const auto max_in_flight = static_cast<uint32_t>(2 * Depths{}.put_slots);
  for (const LinkId& id : links.out)
    out.push_back({.id = id, .inbox_bytes = inbox_bytes, .max_in_flight = max_in_flight});
  for (size_t i = 0; i < links.in.size(); ++i) {
    InLink link;
    link.id = links.in[i];
    link.inbox = {inbox_of(links.in_inbox[i]), inbox_bytes};
    link.max_in_flight = max_in_flight;
    in.push_back(link);
  }
  return endpoint.connect(std::move(out), std::move(in), addresses, deadline_, alarm_fd_);
}

}  // namespace twohop
