// Which attributes may, and must, come with which transition of an RC queue pair? The table of the InfiniBand
// specification.
#include <cerrno>
#include <cstring>

#include "softnic/datapath.hpp"
#include "softnic/port.hpp"
#include "softnic/verbs_exports.hpp"

namespace softnic {
namespace {

struct Transition {
  ibv_qp_state from, to;
  int required, optional;
};

constexpr int kPath = IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE;
constexpr Transition kTransitions[] = {
    {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, 0},
    {IBV_QPS_INIT, IBV_QPS_INIT, 0, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS},
    {IBV_QPS_INIT, IBV_QPS_RTR,
     IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
     IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX},
    {IBV_QPS_RTR, IBV_QPS_RTS,
     IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC,
     kPath | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER | IBV_QP_RATE_LIMIT},
    {IBV_QPS_RTS, IBV_QPS_RTS, 0, kPath | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER | IBV_QP_RATE_LIMIT},
    {IBV_QPS_RTS, IBV_QPS_SQD, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY},
    {IBV_QPS_SQD, IBV_QPS_RTS, 0, kPath | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER},
    {IBV_QPS_SQD, IBV_QPS_SQD, 0,
     kPath | IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS | IBV_QP_AV | IBV_QP_MAX_QP_RD_ATOMIC |
         IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MIN_RNR_TIMER |
         IBV_QP_EN_SQD_ASYNC_NOTIFY},
};

bool allowed(ibv_qp_state from, ibv_qp_state to, int mask) {
  int attributes = mask & ~(IBV_QP_STATE | IBV_QP_CUR_STATE);
  if (to == IBV_QPS_RESET || to == IBV_QPS_ERR) return attributes == 0;
  for (const Transition& known : kTransitions)
    if (known.from == from && known.to == to)
      return (attributes & known.required) == known.required && (attributes & ~known.required & ~known.optional) == 0;
  return false;
}

int mtu_bytes(ibv_mtu mtu) {
  return 128 << mtu;
}

// The values; that they are there at all is the table's matter.
bool values_fit(const LocalQp& qp, const ibv_qp_attr& a, int mask) {
  auto* context = local<LocalContext>(qp.context);
  if ((mask & IBV_QP_PORT) && a.port_num != 1) return false;
  if ((mask & IBV_QP_PKEY_INDEX) && a.pkey_index != 0) return false;
  if ((mask & IBV_QP_TIMEOUT) && a.timeout > 31) return false;
  if ((mask & IBV_QP_RETRY_CNT) && a.retry_cnt > 7) return false;
  if ((mask & IBV_QP_RNR_RETRY) && a.rnr_retry > 7) return false;
  if ((mask & IBV_QP_MIN_RNR_TIMER) && a.min_rnr_timer > 31) return false;
  if ((mask & IBV_QP_MAX_QP_RD_ATOMIC) && a.max_rd_atomic > 16) return false;
  if ((mask & IBV_QP_MAX_DEST_RD_ATOMIC) && a.max_dest_rd_atomic > 16) return false;
  bool mtu_known = a.path_mtu >= IBV_MTU_256 && a.path_mtu <= IBV_MTU_4096;
  if ((mask & IBV_QP_PATH_MTU) && (!mtu_known || mtu_bytes(a.path_mtu) > qp.process->settings().mtu_bytes))
    return false;
  if (!(mask & IBV_QP_AV)) return true;
  ibv_gid gid{};
  ibv_gid_type type{};
  constexpr ibv_gid empty{};
  if (!a.ah_attr.is_global) return context->owner->settings().is_infiniband(context->index) && a.ah_attr.dlid != 0;
  bool known = query_gid(context, a.ah_attr.grh.sgid_index, &gid, &type);
  return a.ah_attr.port_num == 1 && known && std::memcmp(&gid, &empty, sizeof gid) != 0;
}

int family(const ibv_gid& gid) {
  return gid.raw[0] == 0xfe ? 0 : gid.raw[0] == 0xfd ? 6 : 4;
}

// InfiniBand goes by LID, unless a GRH is asked for; Ethernet by GID. Addresses of different families do not reach each
// other.
std::optional<PortName> peer_of(LocalQp& qp, const LocalContext& context) {
  const ibv_ah_attr& ah = qp.attributes.ah_attr;
  if (!ah.is_global) return port_with_lid(ah.dlid);
  ibv_gid gid{};
  ibv_gid_type type{};
  query_gid(&context, ah.grh.sgid_index, &gid, &type);
  qp.shared->gid_version = type == IBV_GID_TYPE_ROCE_V2 ? 2 : 1;
  if (family(gid) != family(ah.grh.dgid)) return std::nullopt;
  return port_with_gid(*qp.process->state(), ah.grh.dgid);
}

void resolve_peer(LocalQp& qp) {
  const auto& context = *local<LocalContext>(qp.context);
  qp.peer_port = nullptr;
  qp.shared->gid_version = 0;
  auto peer = peer_of(qp, context);
  if (!peer) return;
  SharedPort* port = qp.process->port(peer->host, peer->device);
  const SharedPort& own = *qp.process->own_port(context.index);
  if (!port->ready.load() || port->infiniband != own.infiniband) return;
  if (port->net != own.net && !qp.process->settings().route) return;
  qp.peer_host = peer->host;
  qp.peer_device = peer->device;
  qp.peer_counters = qp.process->counters(peer->host, peer->device);
  qp.peer_port = port;
}

// Which refusal a transition falls under.
int refused(LocalQp& qp, ibv_qp_state from, ibv_qp_state to) {
  if (from == to) return 0;
  if (to == IBV_QPS_INIT) return qp.process->refusal(Refusal::kToInit);
  if (to == IBV_QPS_RTR) return qp.process->refusal(Refusal::kToRtr);
  return to == IBV_QPS_RTS && from == IBV_QPS_RTR ? qp.process->refusal(Refusal::kToRts) : 0;
}

void take_requester_attributes(LocalQp& qp, const ibv_qp_attr& a, int mask) {
  ibv_qp_attr& own = qp.attributes;
  if (mask & IBV_QP_AV) own.ah_attr = a.ah_attr;
  if (mask & IBV_QP_DEST_QPN) own.dest_qp_num = a.dest_qp_num;
  if (mask & IBV_QP_PATH_MTU) own.path_mtu = a.path_mtu;
  if (mask & IBV_QP_TIMEOUT) own.timeout = a.timeout;
  if (mask & IBV_QP_RETRY_CNT) own.retry_cnt = a.retry_cnt;
  if (mask & IBV_QP_RNR_RETRY) own.rnr_retry = a.rnr_retry;
  if (mask & IBV_QP_SQ_PSN) own.sq_psn = a.sq_psn & 0xffffff;
  if (mask & IBV_QP_MAX_QP_RD_ATOMIC) own.max_rd_atomic = a.max_rd_atomic;
  if (mask & IBV_QP_PORT) own.port_num = a.port_num;
  if (mask & IBV_QP_EN_SQD_ASYNC_NOTIFY) own.en_sqd_async_notify = a.en_sqd_async_notify;
}

void take_responder_attributes(LocalQp& qp, const ibv_qp_attr& a, int mask) {
  ibv_qp_attr& own = qp.attributes;
  SharedQp& shared = *qp.shared;
  if (mask & IBV_QP_ACCESS_FLAGS) shared.access = own.qp_access_flags = a.qp_access_flags;
  if (mask & IBV_QP_DEST_QPN) shared.dest_qp_num = a.dest_qp_num;
  if (mask & IBV_QP_PATH_MTU) shared.path_mtu_bytes = static_cast<uint32_t>(mtu_bytes(a.path_mtu));
  if (mask & IBV_QP_RQ_PSN) shared.rq_psn = own.rq_psn = a.rq_psn & 0xffffff;
  if (mask & IBV_QP_MIN_RNR_TIMER) shared.min_rnr_timer = own.min_rnr_timer = a.min_rnr_timer;
  if (mask & IBV_QP_MAX_DEST_RD_ATOMIC) shared.max_dest_rd_atomic = own.max_dest_rd_atomic = a.max_dest_rd_atomic;
}

void reset(LocalQp& qp) {
  qp.head = qp.executed = qp.done = qp.drain_mark = 0;
  qp.sq_tail.store(0);
  qp.tx_free_ns = 0;
  qp.peer_port = nullptr;
  qp.attributes = {};
  qp.shared->rq_head.store(0);
  qp.shared->rq_tail.store(0);
  qp.shared->access = 0;
  qp.shared->events.store(0);
}

}  // namespace

int modify_qp(LocalQp* qp, const ibv_qp_attr& attributes, int mask) {
  std::unique_lock sending(qp->send_mutex);
  auto from = static_cast<ibv_qp_state>(qp->shared->state.load());
  ibv_qp_state to = mask & IBV_QP_STATE ? attributes.qp_state : from;
  if ((mask & IBV_QP_CUR_STATE) && attributes.cur_qp_state != from) return EINVAL;
  if (!allowed(from, to, mask) || !values_fit(*qp, attributes, mask)) return EINVAL;
  if (const int error = refused(*qp, from, to)) return error;
  take_requester_attributes(*qp, attributes, mask);
  if (mask & IBV_QP_AV) resolve_peer(*qp);
  {
    std::lock_guard lock(qp->shared->lock);
    take_responder_attributes(*qp, attributes, mask);
    if (to == IBV_QPS_RESET) reset(*qp);
    if (to == IBV_QPS_SQD && from != IBV_QPS_SQD) qp->drain_mark = qp->head, qp->drained_reported = false;
    qp->shared->state.store(to, std::memory_order_release);
  }
  qp->state = to;
  if (to == IBV_QPS_RESET) {
    qp->next_due_ns.store(kNever);
    purge_completions(*local<LocalCq>(qp->send_cq), qp->qp_num);
    purge_completions(*local<LocalCq>(qp->recv_cq), qp->qp_num);
  } else {
    progress(*qp, now_ns());
  }
  sending.unlock();
  qp->process->wake_helper_for(*qp);
  return 0;
}

void query_qp(LocalQp* qp, ibv_qp_attr* attributes, ibv_qp_init_attr* init) {
  std::lock_guard sending(qp->send_mutex);
  std::lock_guard lock(qp->shared->lock);
  *attributes = qp->attributes;
  attributes->qp_state = attributes->cur_qp_state = static_cast<ibv_qp_state>(qp->shared->state.load());
  attributes->cap = qp->init.cap;
  attributes->sq_draining = attributes->qp_state == IBV_QPS_SQD && qp->done < qp->drain_mark;
  qp->state = attributes->qp_state;
  if (init) *init = qp->init;
}

}  // namespace softnic
