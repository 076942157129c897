// What is said when a connection fails: who, where, how it was set up, what the device counted, the likely cause and
// the next step.
#include "base/log.hpp"
#include "transport/verbs/verbs_endpoint.hpp"

namespace twohop::verbs {
namespace {

/// In the user's terms. Opcode and length of a failed completion are undefined and are not looked at.
const char* likely_cause(ibv_wc_status status, bool port_down) {
  switch (status) {
    case IBV_WC_RETRY_EXC_ERR:
      return port_down ? "the port went down: check cable, switch and the host's log"
                       : "the peer did not acknowledge: its process or host is gone, the route between these two GIDs "
                         "is broken (firewall, VLAN, wrong GID), or packets are lost (PFC, MTU on the way). Check that "
                         "the hosts ping each other over these addresses; against longer outages raise "
                         "TWOHOP_IB_TIMEOUT";
    case IBV_WC_RNR_RETRY_EXC_ERR:
      return "the peer had no receive posted, which is a fault of twohop: please report it";
    case IBV_WC_LOC_PROT_ERR:
      return "the device may not read this memory: was it unmapped, or is an IOMMU or PCIe ACS in the way?";
    case IBV_WC_REM_ACCESS_ERR:
    case IBV_WC_REM_INV_REQ_ERR:
      return "the peer's device refused the write: its memory is no longer registered (did that rank fail?)";
    case IBV_WC_REM_OP_ERR:
      return "the peer's device failed: look at that host's log";
    default:
      return "look at the log of that rank and at the kernel's log of both hosts";
  }
}

}  // namespace

Error VerbsEndpoint::die(Error e) {
  if (dead_) return *dead_;
  log_debug("{}", e.message);  // the communicator decides whether this is the cause
  dead_ = std::move(e);
  return *dead_;
}

Error VerbsEndpoint::about(const Peer& p, twohopResult_t code, std::string message) const {
  Error e;
  e.code = code;
  e.message = fmt::format("RDMA connection with rank {} ({}): {}", p.rank, p.address, message);
  e.scope = Scope::kPeer;
  e.rank = p.rank;
  return e;
}

Error VerbsEndpoint::violation(const Peer& p, const std::string& what) const {
  return about(p, twohopRemoteError,
               fmt::format("it broke the data protocol: {}; do all ranks run the same twohop version?", what));
}

Error VerbsEndpoint::closed_early(const Peer& p) const {
  Error e = about(p, twohopRemoteError, "");
  e.message = fmt::format(
      "rank {} ({}) closed its connection while this rank still needs it: it ended or was killed; look at that rank's "
      "log",
      p.rank, p.address);
  return e;
}

Error VerbsEndpoint::left_early(const Peer& p) const {
  Error e = about(p, twohopInvalidUsage, "");
  e.message = fmt::format(
      "rank {} ({}) closed its connection in good order, so it has destroyed its communicator, while this rank is in a "
      "call that needs it. All ranks must make the same calls before they destroy",
      p.rank, p.address);
  return e;
}

std::string VerbsEndpoint::describe(const Qp& qp) const {
  const Rail& rail = rails_[qp.rail];
  const Peer& p = peers_[qp.peer];
  const size_t number = static_cast<size_t>(SendQueue::id_of(qp.receives.front().wr_id)) - p.first_qp;
  const Path& path = p.paths[number / p.qps_per_path];
  const ConnectionPlan& c = qp.plan;
  return fmt::format(
      "queue pair {:#x} of rail {} ({}, {}) to rank {} ({}, queue pair {:#x}; {}), MTU {}, timeout {} and {} retries "
      "({:.2g} s in all)",
      c.local.qpn, qp.rail, rail.name, link_layer_name(rail.ethernet), p.rank, p.address, c.remote.qpn,
      describe_path(p, path), mtu_bytes(c.mtu), c.tuning.timeout, c.tuning.retry_count,
      give_up_seconds(c.tuning.timeout, c.tuning.retry_count));
}

Error VerbsEndpoint::broken(const Qp& qp, ibv_wc_status status, uint32_t vendor) const {
  const Rail& rail = rails_[qp.rail];
  const Peer& p = peers_[qp.peer];
  const VerbsApi& api = rail.context->api();
  const uint64_t now = now_ns();
  const double since_connect = static_cast<double>(now - connected_ns_) * 1e-9;
  const double since_posted = static_cast<double>(now - qp.queue.first_unfinished_ns()) * 1e-9;
  const HwCounters counters = read_hw_counters(rail.context->get()->device->ibdev_path, rail.port);
  Error e = make_error(
      twohopRemoteError,
      "{}: {} (status {}, vendor {:#x}) {:.1f} s after the connection was made, {:.2f} s after its oldest unfinished "
      "request was posted. Device counters that moved: {}. {}Likely cause: {}",
      describe(qp), api.wc_status_str(status), static_cast<int>(status), vendor, since_connect, since_posted,
      moved(rail.counters_at_start, counters),
      rail.last_event.empty() ? "" : fmt::format("The device has reported: {}. ", rail.last_event),
      likely_cause(status, rail.down));
  e.scope = Scope::kPeer;
  e.rank = p.rank;
  e.rail = static_cast<int>(qp.rail);
  return e;
}

}  // namespace twohop::verbs
