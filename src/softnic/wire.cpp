// When does a request arrive? Rate, latency, and what Go-Back-N costs when packets are lost.
#include <cmath>

#include "softnic/datapath.hpp"
#include "softnic/port.hpp"

namespace softnic {
namespace {

double uniform(uint64_t* state) {  // splitmix64, in (0, 1]
  uint64_t z = (*state += 0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return (static_cast<double>((z ^ (z >> 31)) >> 11) + 1) * 0x1.0p-53;
}

uint64_t packets_until_loss(LocalQp& qp, double loss) {
  return static_cast<uint64_t>(std::min(1e18, std::floor(std::log(uniform(&qp.random)) / std::log1p(-loss))));
}

struct Wire {
  std::atomic<uint64_t>* free_ns;
  double packet_ns;
  uint64_t latency_ns;
};

void count_timeout(LocalQp& qp) {
  CounterFiles* counters = qp.process->own_counters(qp.shared->device);
  counters->add(Counter::kLocalAckTimeoutErr, 1);
  counters->add(Counter::kCompleterRetryErr, 1);
}

void count_sequence_error(LocalQp& qp) {
  qp.process->own_counters(qp.shared->device)->add(Counter::kPacketSeqErr, 1);
  qp.process->own_counters(qp.shared->device)->add(Counter::kRcvdSeqErr, 1);
  if (!qp.peer_counters) return;
  qp.peer_counters->add(Counter::kOutOfSequence, 1);
  qp.peer_counters->add(Counter::kOutOfSeqRequest, 1);
}

// One lost packet: the receiver's NAK after a round trip, while the packets behind it were sent for nothing; or, with
// nothing behind it, the timeout. Returns when sending starts again.
uint64_t recover(LocalQp& qp, const Wire& wire, uint64_t lost_at, uint64_t behind) {
  if (behind == 0) {
    count_timeout(qp);
    return lost_at + ack_timeout_ns(qp);
  }
  count_sequence_error(qp);
  uint64_t round_trip = 2 * wire.latency_ns;
  uint64_t wasted = behind;
  if (wire.packet_ns > 0)
    wasted = std::min<uint64_t>(behind, 1 + static_cast<uint64_t>(static_cast<double>(round_trip) / wire.packet_ns));
  qp.process->own_counters(qp.shared->device)->add(Counter::kSentPkts, wasted);
  uint64_t spent = static_cast<uint64_t>(static_cast<double>(wasted) * wire.packet_ns);
  return std::max(reserve(wire.free_ns, lost_at, spent), lost_at + round_trip);
}

// Sends all packets of the request; returns when the last is on the wire.
uint64_t send_packets(LocalQp& qp, Wqe& wqe, const Wire& wire, uint64_t start, uint64_t packets) {
  double loss = qp.process->settings().loss;
  if (loss == 0) return reserve(wire.free_ns, start, wqe.wire_ns);
  unsigned tries = 0;
  for (uint64_t sent = 0;;) {
    uint64_t good = packets_until_loss(qp, loss);
    uint64_t now_sent = std::min(packets - sent, good + 1);
    uint64_t end = reserve(wire.free_ns, start, static_cast<uint64_t>(static_cast<double>(now_sent) * wire.packet_ns));
    if (good >= packets - sent) return end;
    tries = good == 0 ? tries + 1 : 1;
    sent += good;
    if (tries > qp.attributes.retry_cnt) {
      wqe.fault = IBV_WC_RETRY_EXC_ERR;
      return end + ack_timeout_ns(qp);
    }
    start = recover(qp, wire, end, packets - sent - 1);
  }
}

}  // namespace

uint64_t ack_timeout_ns(const LocalQp& qp) {
  if (qp.attributes.timeout == 0) return 100'000'000;  // "infinite": looked at again and again, never counted
  return uint64_t{4096} << qp.attributes.timeout;
}

void send_on_wire(LocalQp& qp, Wqe& wqe, uint64_t now) {
  const Settings& settings = qp.process->settings();
  bool read = wqe.opcode == IBV_WR_RDMA_READ;
  SharedPort* port = read && qp.peer_port ? qp.peer_port : qp.process->own_port(qp.shared->device);
  uint64_t packets =
      std::max<uint64_t>(1, (wqe.length + qp.shared->path_mtu_bytes - 1) / std::max(1u, qp.shared->path_mtu_bytes));
  wqe.wire_ns = static_cast<uint64_t>(port->ns_per_byte * wqe.length);
  wqe.received = wqe.wire_ns == 0;
  Wire wire{&port->tx_free_ns, static_cast<double>(wqe.wire_ns) / static_cast<double>(packets), settings.latency_ns};
  // A read's request travels first; its answer takes the peer's wire.
  uint64_t start = std::max(now + (read ? settings.latency_ns : 0), qp.tx_free_ns);
  bool instant = wqe.wire_ns == 0 && settings.loss == 0;
  uint64_t end = instant ? start : send_packets(qp, wqe, wire, start, packets);
  qp.tx_free_ns = end;
  wqe.due_ns = end + settings.latency_ns;
}

bool wait_for_receiver(LocalQp& qp, Wqe& wqe, uint64_t now) {
  if (wqe.received || !qp.peer_port) return false;
  wqe.received = true;
  bool read = wqe.opcode == IBV_WR_RDMA_READ;
  SharedPort* receiver = read ? qp.process->own_port(qp.shared->device) : qp.peer_port;
  auto duration = static_cast<uint64_t>(receiver->ns_per_byte * wqe.length);
  uint64_t arrives = wqe.due_ns > duration ? wqe.due_ns - duration : 0;
  wqe.due_ns = std::max(wqe.due_ns, reserve(&receiver->rx_free_ns, arrives, duration));
  return wqe.due_ns > now;
}

}  // namespace softnic
