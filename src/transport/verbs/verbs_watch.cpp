// What if a device never gives up? Soft-RoCE takes 7 retries for "without end", and firmware has bugs: a queue pair
// without a completion for longer than its timeout and retries allow is taken for broken, so that no wait is endless.
#include "transport/verbs/verbs_endpoint.hpp"

namespace twohop::verbs {

Result<> VerbsEndpoint::watch_queues() {
  const uint64_t now = now_ns();
  for (Qp& qp : qps_) {
    const bool still = qp.queue.completion_due() && !qp.dead && !peers_[qp.peer].left;
    if (!still || qp.still_since_ns == 0 || qp.queue.finished() != qp.seen_finished) {
      qp.seen_finished = qp.queue.finished();
      qp.still_since_ns = still ? now : 0;
      continue;
    }
    const double seconds = static_cast<double>(now - qp.still_since_ns) * 1e-9;
    if (seconds < patience_seconds(qp.plan.tuning, rails_[qp.rail].down)) continue;
    Peer& p = peers_[qp.peer];
    const size_t path = path_number(qp);
    const bool last = !another_way(p, path);
    Error e = describe_failure(qp, IBV_WC_RETRY_EXC_ERR, 0, last);
    const Rail& rail = rails_[qp.rail];
    const uint64_t not_ready = not_ready_in(read_hw_counters(rail.context->get()->device->ibdev_path, rail.port)),
                   before = not_ready_in(rail.counters_at_start);
    e.message += fmt::format(
        " (twohop gave up: the device has completed nothing for {:.1f} s, which is more than its timeout and retries "
        "allow{})",
        seconds,
        not_ready > before ? fmt::format("; its port was told {} times that a peer had no receive posted, and tries "
                                         "that for ever",
                                         not_ready - before)
                           : "");
    if (last) {
      qp.dead = true;
      return e;
    }
    if (auto r = take_down(p, path, std::move(e), false); !r) return r;
  }
  return {};
}

}  // namespace twohop::verbs
