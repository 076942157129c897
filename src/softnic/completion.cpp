// Completion queues: they lie in shared memory, so that a peer can append a receive completion.
#include <cstring>

#include "softnic/datapath.hpp"

namespace softnic {
namespace {

Cqe* ring(Process& process, const SharedCq& cq) {
  return process.domain()->at<Cqe>(cq.ring);
}

// Takes the arming away if this completion is what the owner waits for.
bool wants_event(SharedCq& cq, const Cqe& cqe, bool solicited) {
  bool hit = cq.armed == kArmedAny || (cq.armed == kArmedSolicited && (solicited || cqe.status != IBV_WC_SUCCESS));
  if (hit) cq.armed = kNotArmed;
  return hit;
}

void to_public(const Cqe& cqe, ibv_wc* wc) {
  std::memset(wc, 0, sizeof *wc);
  wc->wr_id = cqe.wr_id;
  wc->status = static_cast<ibv_wc_status>(cqe.status);
  std::memcpy(&wc->opcode, &cqe.opcode, sizeof wc->opcode);  // of a failed completion: not a value of the enum
  wc->vendor_err = cqe.vendor_err;
  wc->byte_len = cqe.byte_len;
  wc->imm_data = cqe.imm_data;
  wc->qp_num = cqe.qp_num;
  wc->src_qp = cqe.src_qp;
  wc->wc_flags = cqe.wc_flags;
}

// Whoever polls does the work that is due; a queue pair that another thread is running is left to it.
void run_senders(LocalCq& cq) {
  std::unique_lock guard(cq.senders_mutex, std::try_to_lock);
  if (!guard) return;
  uint64_t now = 0;
  for (LocalQp* qp : cq.senders) {
    uint64_t due = qp->next_due_ns.load(std::memory_order_acquire);
    if (due == kNever) continue;
    if (now == 0) cq.last_poll_ns.store(now = now_ns(), std::memory_order_relaxed);
    if (due > now) continue;
    std::unique_lock sending(qp->send_mutex, std::try_to_lock);
    if (sending) progress(*qp, now);
  }
}

}  // namespace

bool push_completion(Process& process, uint32_t cq_index, const Cqe& cqe, bool solicited) {
  SharedCq& cq = process.state()->cqs[cq_index];
  bool notify = false;
  int fd = -1;
  uint32_t owner = 0, handle = 0;
  uint64_t channel = 0;
  {
    std::lock_guard guard(cq.lock);
    uint64_t produced = cq.produced.load();
    owner = cq.owner;
    if (produced - cq.consumed.load() >= cq.depth) {
      if (cq.overrun.exchange(1) == 0) process.kick(owner);
      return false;
    }
    ring(process, cq)[produced % cq.depth] = cqe;
    cq.produced.store(produced + 1, std::memory_order_release);
    notify = wants_event(cq, cqe, solicited) && cq.channel_fd >= 0;
    fd = cq.channel_fd;
    channel = cq.channel_id;
    handle = cq.handle.load();
  }
  if (notify) process.notify_channel(owner, fd, channel, handle);
  return true;
}

int poll_cq(ibv_cq* public_cq, int count, ibv_wc* completions) {
  auto& cq = *local<LocalCq>(public_cq);
  SharedCq& shared = *cq.shared;
  run_senders(cq);
  if (shared.produced.load(std::memory_order_acquire) == shared.consumed.load()) return 0;
  std::lock_guard guard(shared.lock);
  uint64_t consumed = shared.consumed.load(), produced = shared.produced.load();
  int found = 0;
  for (; found < count && consumed < produced; found++, consumed++) {
    const Cqe& cqe = ring(*cq.process, shared)[consumed % shared.depth];
    to_public(cqe, &completions[found]);
    if (cqe.sender) reinterpret_cast<LocalQp*>(cqe.sender)->sq_tail.store(cqe.sq_tail, std::memory_order_release);
  }
  shared.consumed.store(consumed, std::memory_order_release);
  return found;
}

int req_notify_cq(ibv_cq* public_cq, int solicited_only) {
  auto& cq = *local<LocalCq>(public_cq);
  {
    std::lock_guard guard(cq.shared->lock);
    if (!solicited_only)
      cq.shared->armed = kArmedAny;
    else if (cq.shared->armed == kNotArmed)
      cq.shared->armed = kArmedSolicited;
  }
  cq.last_poll_ns.store(0);  // whoever arms is about to sleep: from here on the helper runs what is due
  std::lock_guard guard(cq.senders_mutex);
  for (LocalQp* qp : cq.senders) cq.process->wake_helper_for(*qp);
  return 0;
}

void purge_completions(LocalCq& cq, uint32_t qp_num) {
  SharedCq& shared = *cq.shared;
  std::lock_guard guard(shared.lock);
  Cqe* entries = ring(*cq.process, shared);
  uint64_t to = shared.consumed.load();
  for (uint64_t from = to; from < shared.produced.load(); from++) {
    Cqe cqe = entries[from % shared.depth];
    if (cqe.qp_num != qp_num) entries[to++ % shared.depth] = cqe;
  }
  shared.produced.store(to);
}

// As in the logs of real adapters, where users look them up.
uint32_t vendor_error(ibv_wc_status status) {
  switch (status) {
    case IBV_WC_SUCCESS:
      return 0;
    case IBV_WC_RETRY_EXC_ERR:
      return 129;
    case IBV_WC_RNR_RETRY_EXC_ERR:
      return 135;
    case IBV_WC_REM_ACCESS_ERR:
      return 136;
    case IBV_WC_REM_OP_ERR:
      return 137;
    case IBV_WC_REM_INV_REQ_ERR:
      return 138;
    case IBV_WC_WR_FLUSH_ERR:
      return 249;
    default:
      return 81;
  }
}

}  // namespace softnic
