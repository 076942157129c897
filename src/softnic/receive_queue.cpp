// How are receive buffers offered to peers, and given back when the queue pair fails?
#include <algorithm>
#include <cerrno>

#include "softnic/datapath.hpp"

namespace softnic {
namespace {

int add_receive(LocalQp& qp, const ibv_recv_wr& wr) {
  SharedQp& shared = *qp.shared;
  if (wr.num_sge < 0 || static_cast<uint32_t>(wr.num_sge) > qp.init.cap.max_recv_sge) return EINVAL;
  uint64_t head = shared.rq_head.load();
  if (head - shared.rq_tail.load() >= shared.rq_depth) return ENOMEM;
  if (qp.process->loses_receive(shared.device)) return 0;
  RecvEntry& entry = qp.process->domain()->at<RecvEntry>(shared.rq_ring)[head % shared.rq_depth];
  entry.wr_id = wr.wr_id;
  entry.sge_count = static_cast<uint32_t>(wr.num_sge);
  std::copy_n(wr.sg_list, wr.num_sge, entry.sges);
  shared.rq_head.store(head + 1, std::memory_order_release);
  return 0;
}

}  // namespace

int post_recv(ibv_qp* public_qp, ibv_recv_wr* wr, ibv_recv_wr** bad_wr) {
  auto& qp = *local<LocalQp>(public_qp);
  uint32_t state = 0;
  int error = 0;
  {
    std::lock_guard guard(qp.shared->lock);
    state = qp.shared->state.load();
    if (state == IBV_QPS_RESET) error = EINVAL;
    for (; wr && error == 0;) {
      error = add_receive(qp, *wr);
      if (error == 0) wr = wr->next;
    }
  }
  if (error) *bad_wr = wr;
  if (state == IBV_QPS_ERR) flush_receives(qp);
  return error;
}

void flush_receives(LocalQp& qp) {
  SharedQp& shared = *qp.shared;
  std::lock_guard guard(shared.lock);
  for (; shared.rq_tail.load() != shared.rq_head.load(); shared.rq_tail.fetch_add(1)) {
    Cqe cqe{};
    cqe.wr_id = qp.process->domain()->at<RecvEntry>(shared.rq_ring)[shared.rq_tail.load() % shared.rq_depth].wr_id;
    cqe.status = IBV_WC_WR_FLUSH_ERR;
    cqe.opcode = cqe.byte_len = 0x5a5a5a5a;  // as in every failed completion
    cqe.vendor_err = vendor_error(IBV_WC_WR_FLUSH_ERR);
    cqe.qp_num = qp.qp_num;
    qp.process->own_counters(shared.device)->add(Counter::kRespCqeFlushError, 1);
    push_completion(*qp.process, shared.recv_cq, cqe, false);
  }
}

}  // namespace softnic
