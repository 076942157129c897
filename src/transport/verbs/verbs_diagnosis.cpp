// What is said when a connection fails: who, where, how it was set up, what the device counted, the likely cause and
// the next step.
#include <net/if.h>

#include <cerrno>

#include "base/log.hpp"
#include "transport/verbs/verbs_endpoint.hpp"

namespace twohop::verbs {
namespace {

/// A reply that takes so long is no sign of a fault: interrupts and schedulers of loaded hosts need it.
constexpr double kBusyPeerSeconds = 0.05;

constexpr const char* kPortWentDown = "the port went down: check cable, switch and the host's log";

/// Also before its event has been read: a send that fails at once can be first.
bool is_down(const Rail& rail) {
  return rail.down || !port_is_active(rail);
}

/// The entries of a port's table whose interface this process can see.
std::string visible_gids(const std::vector<GidCandidate>& gids) {
  std::vector<GidEntry> visible;
  for (const GidCandidate& c : gids)
    if (!c.entry.interface.empty() && ::if_nametoindex(c.entry.interface.c_str()) != 0) visible.push_back(c.entry);
  return describe(visible);
}

}  // namespace

const Path& VerbsEndpoint::path_of(const Qp& qp) const {
  return peers_[qp.peer].paths[path_number(qp)];
}

size_t VerbsEndpoint::path_number(const Qp& qp) const {
  const Peer& p = peers_[qp.peer];
  const size_t number = static_cast<size_t>(SendQueue::id_of(qp.receives.front().wr_id)) - p.first_qp;
  return number / p.qps_per_path;
}

/// In the user's terms. Opcode and length of a failed completion are undefined and are not looked at.
std::string VerbsEndpoint::likely_cause(const Qp& qp, ibv_wc_status status) const {
  const Peer& p = peers_[qp.peer];
  switch (status) {
    case IBV_WC_RETRY_EXC_ERR:
      if (is_down(rails_[qp.rail])) return kPortWentDown;
      if (const double waited_s = give_up_seconds(qp.plan.tuning.timeout, qp.plan.tuning.retry_count);
          waited_s < kBusyPeerSeconds)
        return fmt::format(
            "{:.2g} s in all is less than a busy host or switch may take to reply: raise TWOHOP_IB_TIMEOUT (it is {}; "
            "14 "
            "and more are usual). If that changes nothing, look at the route between the addresses: {}",
            waited_s, qp.plan.tuning.timeout, describe_path(p, path_of(qp)));
      if (!qp.proven)
        return fmt::format(
            "there was never a reply from rank {} ({}): the route between these two addresses is broken (firewall, "
            "VLAN, wrong GID). Check that the hosts ping each other over them, or choose another GID by "
            "TWOHOP_IB_GID_INDEX or TWOHOP_IB_ADDR_RANGE",
            p.rank, describe_path(p, path_of(qp)));
      return "the peer replied before and does no more: its process or host is gone, a link on the way is down, or "
             "packets are lost (PFC, MTU on the way). Against longer outages raise TWOHOP_IB_TIMEOUT";
    case IBV_WC_RNR_RETRY_EXC_ERR:
      return "the peer had no receive posted, which is a fault of twohop: please report it";
    case IBV_WC_LOC_PROT_ERR:
      return "the device may not read this memory: was it unmapped or deregistered, or is an IOMMU or PCIe ACS in the "
             "way?";
    case IBV_WC_REM_ACCESS_ERR:
    case IBV_WC_REM_INV_REQ_ERR:
      return "the peer's device refused the write: its memory is no longer registered (did that rank fail?)";
    case IBV_WC_WR_FLUSH_ERR:
      if (is_down(rails_[qp.rail])) return kPortWentDown;
      return "the queue pair was broken by the other end or by an event: that rank's log has the first failure";
    case IBV_WC_REM_OP_ERR:
      return "the peer's device failed: look at that host's log";
    default:
      return "look at the log of that rank and at the kernel's log of both hosts";
  }
}

std::string VerbsEndpoint::advice_for_transition(const Qp& qp, int sys_errno) const {
  const Rail& rail = rails_[qp.rail];
  const Path& path = path_of(qp);
  const GidEntry gid = rail.gids.empty() ? GidEntry() : rail.gids[path.local_gid].entry;
  const std::string interface = gid.interface.empty() ? "unknown" : gid.interface;
  switch (sys_errno) {
    case ENODEV:
      return fmt::format(
          "the interface of GID {} ({}) is {}, which is down or not in this network namespace; GIDs of {} whose "
          "interface is here: {}. Choose one by TWOHOP_IB_GID_INDEX, or give the container its interface",
          gid.index, to_string(gid.gid), interface, rail.name, visible_gids(rail.gids));
    case ENODATA:
      return fmt::format("GID index {} of {} has become empty: its interface {} has lost its address; give it back",
                         gid.index, rail.name, interface);
    case ETIMEDOUT:
      return "the peer's address does not resolve: can this host ping it over that interface? (ip neigh shows it)";
    case ENETUNREACH:
      return "there is no route to the peer's GID: are both ends in reachable subnets?";
    default:
      return "compare GID, MTU, service level and partition key with the fabric's";
  }
}

/// Of the requests of this queue pair: those that the device gave up along with the first. Takes what is there.
size_t VerbsEndpoint::count_flushed(const Qp& qp) const {
  size_t count = 0;
  ibv_wc found[kPollBatch];
  for (int n = kPollBatch; n == kPollBatch;) {
    n = ibv_poll_cq(qp.pair->send_cq, kPollBatch, found);
    for (int i = 0; i < n; ++i) count += found[i].status != IBV_WC_SUCCESS;
  }
  return count;
}

Error VerbsEndpoint::die(Error e) {
  if (dead_) return *dead_;
  log_debug("{}", e.message);  // the communicator decides whether this is the cause
  dead_ = std::move(e);
  tell_the_end(*dead_);
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
  const ConnectionPlan& c = qp.plan;
  return fmt::format(
      "queue pair {:#x} of rail {} ({}, {}) to rank {} ({}, queue pair {:#x}; {}), MTU {}, timeout {} and {} retries "
      "({:.2g} s in all)",
      c.local.qpn, qp.rail, rail.name, link_layer_name(rail.ethernet), p.rank, p.address, c.remote.qpn,
      describe_path(p, path_of(qp)), mtu_bytes(c.mtu), c.tuning.timeout, c.tuning.retry_count,
      give_up_seconds(c.tuning.timeout, c.tuning.retry_count));
}

/// `last`: nobody looks at the completions that are still there.
Error VerbsEndpoint::describe_failure(const Qp& qp, ibv_wc_status status, uint32_t vendor, bool last) {
  read_async_events(rails_[qp.rail]);  // a failed completion may be seen before the event that explains it
  const Rail& rail = rails_[qp.rail];
  const Peer& p = peers_[qp.peer];
  const VerbsApi& api = rail.context->api();
  const uint64_t now = now_ns();
  const double since_connect = static_cast<double>(now - connected_ns_) * 1e-9;
  const double since_posted = static_cast<double>(now - qp.queue.first_unfinished_ns()) * 1e-9;
  const HwCounters counters = read_hw_counters(rail.context->get()->device->ibdev_path, rail.port);
  std::string event;
  if (!rail.last_event.empty())
    event = fmt::format("The device has reported: {}, {:.2f} s ago. ", rail.last_event,
                        static_cast<double>(now - rail.last_event_ns) * 1e-9);
  Error e = make_error(
      twohopRemoteError,
      "{}: {} (status {}, vendor {:#x}) {:.1f} s after the connection was made, {:.2f} s after its oldest unfinished "
      "request was posted; {}. Device counters that moved: {}. {}Likely cause: {}",
      describe(qp), api.wc_status_str(status), static_cast<int>(status), vendor, since_connect, since_posted,
      last ? fmt::format("{} further requests were flushed", count_flushed(qp)) : "its other requests go another way",
      moved(rail.counters_at_start, counters), event, likely_cause(qp, status));
  e.scope = Scope::kPeer;
  e.rank = p.rank;
  e.rail = static_cast<int>(qp.rail);
  return e;
}

}  // namespace twohop::verbs
