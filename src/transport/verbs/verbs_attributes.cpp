// See verbs_attributes.hpp. Masks follow the InfiniBand specification's table of modifiers for RC (11.2.5.2).
#include "transport/verbs/verbs_attributes.hpp"

#include <algorithm>
#include <cmath>

namespace twohop::verbs {
namespace {

// About 0.64 ms between tries when the receiver has no receive posted, which a correct run never sees.
constexpr uint8_t kMinRnrTimer = 12;
constexpr uint8_t kRnrRetryForever = 7;
constexpr uint8_t kHopLimit = 255;

ibv_ah_attr address(const ConnectionPlan& c) {
  ibv_ah_attr ah{};
  ah.dlid = c.remote.lid;
  ah.sl = c.tuning.service_level;
  ah.port_num = c.port;
  if (c.global) {
    ah.is_global = 1;
    ah.grh.dgid = c.remote.gid;
    ah.grh.flow_label = c.flow_label & 0xfffff;
    ah.grh.sgid_index = c.gid_index;
    ah.grh.hop_limit = kHopLimit;
    ah.grh.traffic_class = c.tuning.traffic_class;
  }
  return ah;
}

}  // namespace

Transition to_init(const ConnectionPlan& c) {
  Transition t;
  t.attributes.qp_state = IBV_QPS_INIT;
  t.attributes.pkey_index = c.tuning.pkey_index;
  t.attributes.port_num = c.port;
  t.attributes.qp_access_flags = c.access;
  t.mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
  return t;
}

Transition to_ready_to_receive(const ConnectionPlan& c) {
  Transition t;
  t.attributes.qp_state = IBV_QPS_RTR;
  t.attributes.path_mtu = c.mtu;
  t.attributes.dest_qp_num = c.remote.qpn;
  t.attributes.rq_psn = c.remote.psn;
  t.attributes.max_dest_rd_atomic = c.reads_in_flight;
  t.attributes.min_rnr_timer = kMinRnrTimer;
  t.attributes.ah_attr = address(c);
  t.mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
           IBV_QP_MIN_RNR_TIMER;
  return t;
}

Transition to_ready_to_send(const ConnectionPlan& c) {
  Transition t;
  t.attributes.qp_state = IBV_QPS_RTS;
  t.attributes.timeout = c.tuning.timeout;
  t.attributes.retry_cnt = c.tuning.retry_count;
  t.attributes.rnr_retry = kRnrRetryForever;
  t.attributes.sq_psn = c.local.psn;
  t.attributes.max_rd_atomic = c.reads_in_flight;
  t.mask =
      IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;
  return t;
}

Transition to_error() {
  Transition t;
  t.attributes.qp_state = IBV_QPS_ERR;
  t.mask = IBV_QP_STATE;
  return t;
}

uint8_t staggered_timeout(uint8_t timeout, int stagger, size_t i) {
  const auto extra = static_cast<int>(i % (static_cast<size_t>(stagger) + 1));
  return static_cast<uint8_t>(std::min(31, timeout + extra));
}

double give_up_seconds(uint8_t timeout, uint8_t retry_count) {
  return 4.096e-6 * std::ldexp(1.0, timeout) * (retry_count + 1);
}

double patience_seconds(const RcTuning& tuning, bool port_down) {
  // A try may take four times its nominal timeout (InfiniBand specification 9.7.6.1.3).
  constexpr double kSlack = 4, kFloorSeconds = 1;
  return kFloorSeconds + give_up_seconds(tuning.timeout, tuning.retry_count) * (port_down ? 1 : kSlack);
}

int mtu_bytes(ibv_mtu mtu) {
  return 128 << static_cast<int>(mtu);
}

ibv_mtu mtu_from_bytes(int bytes) {
  int code = IBV_MTU_256;
  while (code < IBV_MTU_4096 && (128 << code) < bytes) ++code;
  return static_cast<ibv_mtu>(code);
}

}  // namespace twohop::verbs
