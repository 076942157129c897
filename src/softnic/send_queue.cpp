// How does a work request go from post_send to its completion? Order, slots, retries, errors, flush.
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "softnic/datapath.hpp"

namespace softnic {
namespace {

Wqe& slot(LocalQp& qp, uint64_t position) {
  return qp.sq[position % qp.sq.size()];
}

ibv_wc_opcode completion_opcode(uint32_t opcode) {
  switch (opcode) {
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
      return IBV_WC_RDMA_WRITE;
    case IBV_WR_RDMA_READ:
      return IBV_WC_RDMA_READ;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
      return IBV_WC_COMP_SWAP;
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
      return IBV_WC_FETCH_ADD;
    default:
      return IBV_WC_SEND;
  }
}

// Of a failed completion only wr_id, status, qp_num and vendor_err mean something: the rest is junk on purpose.
constexpr uint32_t kJunk = 0x5a5a5a5a;

void complete(LocalQp& qp, uint64_t position, ibv_wc_status status) {
  Wqe& wqe = slot(qp, position);
  if (status == IBV_WC_SUCCESS && !wqe.signaled) return;
  Cqe cqe{};
  cqe.wr_id = wqe.wr_id;
  cqe.sender = reinterpret_cast<uint64_t>(&qp);
  cqe.sq_tail = position + 1;
  cqe.status = status;
  cqe.vendor_err = vendor_error(status);
  cqe.qp_num = qp.qp_num;
  cqe.opcode = status == IBV_WC_SUCCESS ? static_cast<uint32_t>(completion_opcode(wqe.opcode)) : kJunk;
  cqe.byte_len = status == IBV_WC_SUCCESS ? wqe.length : kJunk;
  if (push_completion(*qp.process, local<LocalCq>(qp.send_cq)->index, cqe, false)) return;
  if (qp.shared->state.exchange(IBV_QPS_ERR) != IBV_QPS_ERR) qp.shared->events.fetch_or(1u << IBV_EVENT_QP_FATAL);
  qp.process->kick(qp.process->slot());
}

void complete_acknowledged(LocalQp& qp, uint64_t now) {
  while (qp.done < qp.executed && slot(qp, qp.done).ack_ns <= now) complete(qp, qp.done++, IBV_WC_SUCCESS);
}

// Everything that is not done ends as flushed, signalled or not, on both queues.
void flush(LocalQp& qp) {
  complete_acknowledged(qp, kNever);
  CounterFiles* counters = qp.process->own_counters(qp.shared->device);
  counters->add(Counter::kReqCqeFlushError, qp.head - qp.executed);
  while (qp.executed < qp.head) complete(qp, qp.executed++, IBV_WC_WR_FLUSH_ERR);
  qp.done = qp.executed;
  flush_receives(qp);
}

void fail(LocalQp& qp, ibv_wc_status status) {
  complete_acknowledged(qp, kNever);
  qp.process->own_counters(qp.shared->device)->add(Counter::kReqCqeError, 1);
  qp.shared->state.store(IBV_QPS_ERR, std::memory_order_release);
  complete(qp, qp.executed++, status);
  qp.done = qp.executed;
  flush(qp);
}

void no_answer(LocalQp& qp, Wqe& wqe, uint64_t now) {
  CounterFiles* counters = qp.process->own_counters(qp.shared->device);
  if (wqe.lost > 0) {  // the wait for the last attempt has ended
    counters->add(Counter::kLocalAckTimeoutErr, 1);
    counters->add(Counter::kCompleterRetryErr, 1);
  }
  if (qp.attributes.timeout != 0) wqe.lost++;
  wqe.due_ns = now + ack_timeout_ns(qp);
}

void not_ready(LocalQp& qp, Wqe& wqe, uint64_t now, uint64_t retry_after_ns) {
  CounterFiles* counters = qp.process->own_counters(qp.shared->device);
  if (qp.attributes.rnr_retry != 7 && wqe.not_ready >= qp.attributes.rnr_retry) {
    counters->add(Counter::kRetryRnrExceededErr, 1);
    fail(qp, IBV_WC_RNR_RETRY_EXC_ERR);
    return;
  }
  if (qp.attributes.rnr_retry != 7) wqe.not_ready++;
  counters->add(Counter::kRnrNakRetryErr, 1);
  wqe.due_ns = now + retry_after_ns;
}

void exceed_retries(LocalQp& qp) {
  CounterFiles* counters = qp.process->own_counters(qp.shared->device);
  counters->add(Counter::kLocalAckTimeoutErr, 1);
  counters->add(Counter::kRetryExceededErr, 1);
  fail(qp, IBV_WC_RETRY_EXC_ERR);
}

void attempt(LocalQp& qp, Wqe& wqe, uint64_t now) {
  if (wqe.fault) {
    const auto status = static_cast<ibv_wc_status>(wqe.fault & ~kFaultDone);
    if ((wqe.fault & kFaultDone) != 0) execute(qp, wqe, now);
    if (status == IBV_WC_RETRY_EXC_ERR) qp.process->own_counters(qp.shared->device)->add(Counter::kRetryExceededErr, 1);
    return fail(qp, status);
  }
  if (wqe.lost > qp.attributes.retry_cnt) return exceed_retries(qp);
  if (wait_for_receiver(qp, wqe, now)) return;
  Response response = execute(qp, wqe, now);
  switch (response.answer) {
    case Answer::kDone:
      wqe.ack_ns = wqe.due_ns + (wqe.opcode == IBV_WR_RDMA_READ ? 0 : qp.process->settings().latency_ns);
      qp.executed++;
      return;
    case Answer::kNone:
      return no_answer(qp, wqe, now);
    case Answer::kNotReady:
      return not_ready(qp, wqe, now, response.retry_after_ns);
    case Answer::kError:
      return fail(qp, response.status);
  }
}

void report_drained(LocalQp& qp) {
  if (qp.drained_reported || qp.done < qp.drain_mark || !qp.attributes.en_sqd_async_notify) return;
  qp.drained_reported = true;
  qp.shared->events.fetch_or(1u << IBV_EVENT_SQ_DRAINED);
  qp.process->kick(qp.process->slot());
}

uint64_t next_due(LocalQp& qp, uint64_t limit) {
  uint64_t next = qp.done < qp.executed ? slot(qp, qp.done).ack_ns : kNever;
  return qp.executed < limit ? std::min(next, slot(qp, qp.executed).due_ns) : next;
}

// ---- posting

int check(const LocalQp& qp, const ibv_send_wr& wr, uint64_t* length) {
  bool known = wr.opcode <= IBV_WR_ATOMIC_FETCH_AND_ADD;
  if (!known || wr.num_sge < 0 || static_cast<uint32_t>(wr.num_sge) > qp.init.cap.max_send_sge) return EINVAL;
  *length = 0;
  for (int i = 0; i < wr.num_sge; i++) *length += wr.sg_list[i].length;
  bool outgoing = wr.opcode < IBV_WR_RDMA_READ;
  if ((wr.send_flags & IBV_SEND_INLINE) && (!outgoing || *length > qp.init.cap.max_inline_data)) return EINVAL;
  if (*length > uint64_t{1} << 31) return EINVAL;
  return qp.head - qp.sq_tail.load(std::memory_order_acquire) >= qp.sq.size() ? ENOMEM : 0;
}

void copy_inline(LocalQp& qp, const ibv_send_wr& wr, Wqe& wqe) {
  char* to = qp.inline_data.data() + (qp.head % qp.sq.size()) * qp.init.cap.max_inline_data;
  wqe.sges[0] = {reinterpret_cast<uint64_t>(to), wqe.length, 0};
  for (int i = 0; i < wr.num_sge; i++) {
    if (wr.sg_list[i].length) std::memcpy(to, reinterpret_cast<const void*>(wr.sg_list[i].addr), wr.sg_list[i].length);
    to += wr.sg_list[i].length;
  }
}

void set_remote(const ibv_send_wr& wr, Wqe& wqe) {
  if (wr.opcode >= IBV_WR_ATOMIC_CMP_AND_SWP) {
    wqe.remote_address = wr.wr.atomic.remote_addr;
    wqe.rkey = wr.wr.atomic.rkey;
    wqe.compare_add = wr.wr.atomic.compare_add;
    wqe.swap = wr.wr.atomic.swap;
    wqe.length = 8;
  } else {
    wqe.remote_address = wr.wr.rdma.remote_addr;
    wqe.rkey = wr.wr.rdma.rkey;
  }
}

void enqueue(LocalQp& qp, const ibv_send_wr& wr, uint64_t length, uint64_t now) {
  Wqe& wqe = slot(qp, qp.head);
  wqe.wr_id = wr.wr_id;
  wqe.opcode = wr.opcode;
  wqe.length = static_cast<uint32_t>(length);
  wqe.imm_data = wr.imm_data;
  wqe.signaled = qp.init.sq_sig_all || (wr.send_flags & IBV_SEND_SIGNALED);
  wqe.solicited = wr.send_flags & IBV_SEND_SOLICITED;
  wqe.has_inline = wr.send_flags & IBV_SEND_INLINE;
  wqe.lost = wqe.not_ready = 0;
  wqe.sge_count = static_cast<uint32_t>(wr.num_sge);
  set_remote(wr, wqe);
  if (wqe.has_inline)
    copy_inline(qp, wr, wqe);
  else
    std::copy_n(wr.sg_list, wr.num_sge, wqe.sges);
  wqe.fault = qp.process->fault_for(qp.shared->device, wqe.opcode);
  send_on_wire(qp, wqe, now);
  qp.head++;
}

// What a store to the adapter over PCI costs the processor.
void ring_doorbell(LocalQp& qp) {
  qp.process->own_counters(qp.shared->device)->add(Counter::kDoorbells, 1);
  uint64_t cost = qp.process->settings().doorbell_ns;
  if (cost == 0) return;
  for (uint64_t end = now_ns() + cost; now_ns() < end;) continue;
}

}  // namespace

void progress(LocalQp& qp, uint64_t now) {
  uint32_t state = qp.shared->state.load(std::memory_order_acquire);
  uint64_t limit = state == IBV_QPS_SQD ? qp.drain_mark : qp.head;
  if (state != IBV_QPS_RTS && state != IBV_QPS_SQD && state != IBV_QPS_ERR) limit = qp.executed;
  while (state != IBV_QPS_ERR) {
    complete_acknowledged(qp, now);
    if (qp.executed >= limit || slot(qp, qp.executed).due_ns > now) break;
    attempt(qp, slot(qp, qp.executed), now);
    state = qp.shared->state.load(std::memory_order_acquire);
  }
  complete_acknowledged(qp, now);
  if (state == IBV_QPS_ERR) {
    flush(qp);
    limit = qp.head;
  }
  if (state == IBV_QPS_SQD) report_drained(qp);
  qp.next_due_ns.store(next_due(qp, limit));
}

int post_send(ibv_qp* public_qp, ibv_send_wr* wr, ibv_send_wr** bad_wr) {
  auto& qp = *local<LocalQp>(public_qp);
  std::lock_guard guard(qp.send_mutex);
  uint32_t state = qp.shared->state.load(std::memory_order_acquire);
  int error = state == IBV_QPS_RTS || state == IBV_QPS_SQD || state == IBV_QPS_ERR ? 0 : EINVAL;
  uint64_t before = qp.head;
  for (uint64_t now = now_ns(); wr && error == 0;) {
    uint64_t length = 0;
    error = check(qp, *wr, &length);
    if (error) break;
    enqueue(qp, *wr, length, now);
    wr = wr->next;
  }
  if (error) *bad_wr = wr;
  if (qp.head == before) return error;
  ring_doorbell(qp);
  progress(qp, now_ns());
  qp.process->wake_helper_for(qp);
  return error;
}

}  // namespace softnic
