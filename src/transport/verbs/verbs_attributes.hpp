// What a queue pair is told on its way RESET -> INIT -> RTR -> RTS: attributes and mask, made together so that neither
// is forgotten. Pure.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>

namespace twohop::verbs {

/// What the user may set (TWOHOP_IB_*).
struct RcTuning {
  uint8_t timeout = 20;  // 4.096 us x 2^timeout per try
  uint8_t retry_count = 7;
  uint8_t traffic_class = 0, service_level = 0;
  uint16_t pkey_index = 0;
};

/// One end of a connection. What the other end must know of it travels; the rest stays here.
struct QpEnd {
  uint32_t qpn = 0, psn = 0;
  uint16_t lid = 0;
  ibv_gid gid{};
};

struct ConnectionPlan {
  QpEnd local, remote;
  uint8_t port = 1;
  uint8_t gid_index = 0;  // of local.gid
  bool global = false;    // RoCE: addresses are GIDs; InfiniBand: LIDs
  ibv_mtu mtu = IBV_MTU_1024;
  uint32_t flow_label = 0;  // 20 bits; on RoCE v2 it chooses the UDP source port
  RcTuning tuning;
  unsigned access = IBV_ACCESS_REMOTE_WRITE;  // what the peer may do over the queue pair
  uint8_t reads_in_flight = 1;                // READs and atomics, each way; the transport itself uses none
};

struct Transition {
  ibv_qp_attr attributes{};
  int mask = 0;
};

Transition to_init(const ConnectionPlan& c);
/// Receives must be posted before.
Transition to_ready_to_receive(const ConnectionPlan& c);
Transition to_ready_to_send(const ConnectionPlan& c);
Transition to_error();

/// The timeout of the i-th queue pair of a connection: neighbours do not time out in lock step. At most 31.
uint8_t staggered_timeout(uint8_t timeout, int stagger, size_t i);
/// Seconds until a peer that answers nothing is given up: every try but the first is a retry.
double give_up_seconds(uint8_t timeout, uint8_t retry_count);
/// Seconds after which a device that still says nothing has forgotten to give up.
double patience_seconds(const RcTuning& tuning, bool port_down);

int mtu_bytes(ibv_mtu mtu);
/// IBV_MTU_x for 256, 512 ... 4096.
ibv_mtu mtu_from_bytes(int bytes);

}  // namespace twohop::verbs
