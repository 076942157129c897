// Creating and destroying queue pairs.
#include <cerrno>

#include "softnic/datapath.hpp"
#include "softnic/verbs_exports.hpp"

namespace softnic {
namespace {

constexpr uint32_t kMaxInline = 1024;

int check(const ibv_qp_init_attr& init) {
  if (init.qp_type != IBV_QPT_RC || init.srq) return EOPNOTSUPP;
  const ibv_qp_cap& cap = init.cap;
  bool fits = cap.max_send_wr <= kMaxWr && cap.max_recv_wr <= kMaxWr && cap.max_send_sge <= kMaxSge &&
              cap.max_recv_sge <= kMaxSge && cap.max_inline_data <= kMaxInline;
  return fits && init.send_cq && init.recv_cq ? 0 : EINVAL;
}

SharedQp* take_qp(Process& process) {
  std::lock_guard guard(process.state()->lock);
  for (uint32_t i = 0; i < kMaxQps; i++) {
    SharedQp& qp = process.state()->qps[i];
    if (qp.qp_num.load() != 0) continue;
    // 24 bits; the number of a destroyed queue pair comes back as late as possible. 0 and 1 are special.
    qp.generation = qp.generation % 4095 + 1;
    std::lock_guard lock(qp.lock);
    qp.qp_num.store(qp.generation * kMaxQps + i);
    qp.state.store(IBV_QPS_RESET);
    qp.owner = process.slot();
    qp.rq_pages = 0;
    return &qp;
  }
  return nullptr;
}

bool set_up_shared(Process& process, SharedQp& qp, const LocalPd& pd, const ibv_qp_init_attr& init, uint32_t device) {
  uint32_t depth = std::max(1u, init.cap.max_recv_wr);
  auto pages = static_cast<uint32_t>((depth * sizeof(RecvEntry) + kPageBytes - 1) / kPageBytes);
  auto ring = process.domain()->allocate(pages);
  if (!ring) return false;
  std::lock_guard lock(qp.lock);
  qp.events.store(0);
  qp.host = process.settings().host;
  qp.device = device;
  qp.pd = pd.id;
  qp.access = 0;
  qp.path_mtu_bytes = static_cast<uint32_t>(process.settings().mtu_bytes);
  qp.recv_cq = local<LocalCq>(init.recv_cq)->index;
  qp.rq_depth = depth;
  qp.rq_pages = pages;
  qp.rq_ring = *ring;
  qp.rq_head.store(0);
  qp.rq_tail.store(0);
  return true;
}

void fill_public(LocalQp& qp, LocalPd* pd, const ibv_qp_init_attr& init) {
  qp.context = pd->context;
  qp.qp_context = init.qp_context;
  qp.pd = pd;
  qp.send_cq = init.send_cq;
  qp.recv_cq = init.recv_cq;
  qp.qp_num = qp.handle = qp.shared->qp_num.load();
  qp.state = IBV_QPS_RESET;
  qp.qp_type = init.qp_type;
  pthread_mutex_init(&qp.mutex, nullptr);
  pthread_cond_init(&qp.cond, nullptr);
}

void attach_to_queues(LocalQp& qp) {
  auto *send_cq = local<LocalCq>(qp.send_cq), *recv_cq = local<LocalCq>(qp.recv_cq);
  send_cq->users++;
  recv_cq->users++;
  std::lock_guard guard(send_cq->senders_mutex);
  send_cq->senders.push_back(&qp);
}

void detach_from_queues(LocalQp& qp) {
  auto *send_cq = local<LocalCq>(qp.send_cq), *recv_cq = local<LocalCq>(qp.recv_cq);
  {
    std::lock_guard guard(send_cq->senders_mutex);
    std::erase(send_cq->senders, &qp);
  }
  purge_completions(*send_cq, qp.qp_num);
  if (send_cq != recv_cq) purge_completions(*recv_cq, qp.qp_num);
  send_cq->users--;
  recv_cq->users--;
}

void wait_for_acknowledged_events(LocalQp& qp) {
  pthread_mutex_lock(&qp.mutex);
  while (qp.async_events_delivered != qp.events_completed) pthread_cond_wait(&qp.cond, &qp.mutex);
  pthread_mutex_unlock(&qp.mutex);
}

}  // namespace

LocalQp* create_qp(LocalPd* pd, ibv_qp_init_attr* init) {
  auto* context = local<LocalContext>(pd->context);
  Process& process = *context->owner;
  errno = process.refusal(Refusal::kCreateQp);
  if (errno) return nullptr;
  errno = check(*init);
  if (errno) return nullptr;
  errno = ENOMEM;
  SharedQp* shared = take_qp(process);
  if (!shared) return nullptr;
  init->cap.max_send_wr = std::max(1u, init->cap.max_send_wr);
  if (!set_up_shared(process, *shared, *pd, *init, context->index)) {
    shared->qp_num.store(0);
    errno = ENOMEM;
    return nullptr;
  }
  auto* qp = new LocalQp{};
  qp->process = &process;
  qp->shared = shared;
  qp->init = *init;
  qp->sq.resize(init->cap.max_send_wr);
  qp->inline_data.resize(size_t{init->cap.max_send_wr} * init->cap.max_inline_data);
  qp->random = process.settings().seed * 0x9e3779b97f4a7c15 + shared->qp_num.load();
  fill_public(*qp, pd, *init);
  pd->users++;
  attach_to_queues(*qp);
  process.add(qp);
  return qp;
}

int destroy_qp(LocalQp* qp) {
  qp->process->remove(qp);
  wait_for_acknowledged_events(*qp);
  uint64_t ring = 0;
  uint32_t pages = 0;
  {
    std::lock_guard sending(qp->send_mutex);
    std::lock_guard lock(qp->shared->lock);  // a peer in the middle of a request finishes it first
    qp->shared->state.store(IBV_QPS_RESET);
    ring = qp->shared->rq_ring;
    pages = std::exchange(qp->shared->rq_pages, 0);
  }
  detach_from_queues(*qp);
  qp->process->domain()->free(ring, pages);
  qp->shared->qp_num.store(0);
  local<LocalPd>(qp->pd)->users--;
  pthread_mutex_destroy(&qp->mutex);
  pthread_cond_destroy(&qp->cond);
  delete qp;
  return 0;
}

}  // namespace softnic
