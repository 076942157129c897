// What does the other side do with a request? Runs in the sender, on the peer's shared half, in the order of the
// InfiniBand specification: is anybody there, may he, is there room, then the bytes, then the receive completion.
#include <cstring>

#include "softnic/datapath.hpp"
#include "softnic/memory.hpp"
#include "softnic/port.hpp"

namespace softnic {
namespace {

constexpr Response kSilence{Answer::kNone};

Response refuse(ibv_wc_status status) {
  return {Answer::kError, status};
}

// The encoded timer of the specification's table, in units of 10 us.
uint64_t rnr_timer_ns(uint32_t code) {
  constexpr uint32_t table[32] = {65536, 1,    2,    3,    4,    6,     8,     12,    16,    24,   32,
                                  48,    64,   96,   128,  192,  256,   384,   512,   768,   1024, 1536,
                                  2048,  3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152};
  return uint64_t{table[code % 32]} * 10'000;
}

struct Holds {
  MrHold list[kMaxSge * 2 + 1];
  uint32_t count = 0;
};

class Responder {
 public:
  Responder(LocalQp& qp, Wqe& wqe)
      : process_(*qp.process), qp_(qp), wqe_(wqe), peer_(process_.state()->qps[qp.attributes.dest_qp_num % kMaxQps]) {}

  Response run(uint64_t now) {
    if (!reachable(now)) return kSilence;
    std::lock_guard guard(peer_.lock);
    if (!listens()) return kSilence;
    return carry_out();
  }

 private:
  bool reachable(uint64_t now) const {
    return qp_.peer_port && port_is_up(*process_.own_port(qp_.shared->device), now) && port_is_up(*qp_.peer_port, now);
  }

  // Anything that does not fit the connection is dropped without a word, as a real responder does.
  bool listens() {
    uint32_t state = peer_.state.load(std::memory_order_acquire);
    bool ready = state == IBV_QPS_RTR || state == IBV_QPS_RTS || state == IBV_QPS_SQD;
    return peer_.qp_num.load() == qp_.attributes.dest_qp_num && ready && peer_.dest_qp_num == qp_.qp_num &&
           peer_.host == qp_.peer_host && peer_.device == qp_.peer_device &&
           peer_.gid_version == qp_.shared->gid_version && peer_.rq_psn == qp_.attributes.sq_psn &&
           process_.alive(peer_.owner);
  }

  Response carry_out() {
    if (peer_.path_mtu_bytes != qp_.shared->path_mtu_bytes &&
        wqe_.length > std::min(peer_.path_mtu_bytes, qp_.shared->path_mtu_bytes))
      return invalid_request();  // packets of another size than the connection's
    switch (wqe_.opcode) {
      case IBV_WR_RDMA_WRITE:
        return write();
      case IBV_WR_RDMA_WRITE_WITH_IMM:
        return write_with_immediate();
      case IBV_WR_SEND:
      case IBV_WR_SEND_WITH_IMM:
        return send();
      case IBV_WR_RDMA_READ:
        return read();
      default:
        return atomic();
    }
  }

  // The requester's own segments. False: a key of its own does not fit.
  bool gather(uint32_t access) {
    if (wqe_.has_inline) {
      here_.add(wqe_.sges[0].addr, wqe_.length);
      return true;
    }
    return add_sges(wqe_.sges, wqe_.sge_count, {0, qp_.shared->owner, qp_.shared->pd, access}, &here_);
  }

  bool add_sges(const ibv_sge* sges, uint32_t count, Access access, Segments* out) {
    for (uint32_t i = 0; i < count; i++) {
      if (sges[i].length == 0) continue;
      access.key = sges[i].lkey;
      auto address = hold_memory(process_.state(), access, sges[i].addr, sges[i].length, &holds_.list[holds_.count]);
      if (!address) return false;
      holds_.count++;
      out->add(*address, sges[i].length);
    }
    return true;
  }

  // The peer's memory that the request names. A request of no bytes names none.
  bool hold_remote(uint32_t access) {
    if (wqe_.length == 0) return true;
    if (!(peer_.access & access)) return false;
    auto address = hold_memory(process_.state(), {wqe_.rkey, peer_.owner, peer_.pd, access}, wqe_.remote_address,
                               wqe_.length, &holds_.list[holds_.count]);
    if (!address) return false;
    holds_.count++;
    there_.add(*address, wqe_.length);
    return true;
  }

  Response move(Direction direction) {
    if (wqe_.length == 0) return done();
    pid_t pid = process_.state()->processes[peer_.owner].pid;
    switch (move_bytes(pid, here_, there_, wqe_.length, direction)) {
      case Moved::kAll:
        return done();
      case Moved::kPeerGone:
        return kSilence;
      default:
        return remote_access_error();
    }
  }

  Response write() {
    if (!gather(0)) return refuse(IBV_WC_LOC_PROT_ERR);
    if (!hold_remote(IBV_ACCESS_REMOTE_WRITE)) return remote_access_error();
    Response response = move(Direction::kToPeer);
    if (response.answer == Answer::kDone && process_.damages(qp_.shared->device, wqe_.length)) turn_a_bit();
    return response;
  }

  // In the middle of what was written: as bad memory, a bad cable or a bad switch would, behind all checks of the wire.
  void turn_a_bit() {
    pid_t pid = process_.state()->processes[peer_.owner].pid;
    unsigned char byte = 0;
    Segments here, there;
    here.add(reinterpret_cast<uint64_t>(&byte), 1);
    there.add(there_.list[0].address + wqe_.length / 2, 1);
    if (move_bytes(pid, here, there, 1, Direction::kFromPeer) != Moved::kAll) return;
    byte ^= 1;
    (void)move_bytes(pid, here, there, 1, Direction::kToPeer);
  }

  Response write_with_immediate() {
    if (!has_receive()) return not_ready();
    Response response = write();
    if (response.answer == Answer::kDone) complete_receive(IBV_WC_SUCCESS, IBV_WC_RECV_RDMA_WITH_IMM);
    return response;
  }

  Response send() {
    if (!has_receive()) return not_ready();
    if (!gather(0)) return refuse(IBV_WC_LOC_PROT_ERR);
    const RecvEntry& entry = receive();
    if (!add_sges(entry.sges, entry.sge_count, {0, peer_.owner, peer_.pd, IBV_ACCESS_LOCAL_WRITE}, &there_))
      return fail_receive(IBV_WC_LOC_PROT_ERR, IBV_WC_REM_OP_ERR);
    if (there_.bytes < wqe_.length) return fail_receive(IBV_WC_LOC_LEN_ERR, IBV_WC_REM_INV_REQ_ERR);
    Response response = move(Direction::kToPeer);
    if (response.answer == Answer::kDone) complete_receive(IBV_WC_SUCCESS, IBV_WC_RECV);
    return response;
  }

  Response read() {
    if (qp_.attributes.max_rd_atomic == 0) return refuse(IBV_WC_LOC_QP_OP_ERR);
    if (peer_.max_dest_rd_atomic == 0) return invalid_request();
    if (!gather(IBV_ACCESS_LOCAL_WRITE)) return refuse(IBV_WC_LOC_PROT_ERR);
    if (!hold_remote(IBV_ACCESS_REMOTE_READ)) return remote_access_error();
    return move(Direction::kFromPeer);
  }

  Response atomic() {
    if (qp_.attributes.max_rd_atomic == 0) return refuse(IBV_WC_LOC_QP_OP_ERR);
    if (peer_.max_dest_rd_atomic == 0 || wqe_.remote_address % 8 != 0) return invalid_request();
    if (!gather(IBV_ACCESS_LOCAL_WRITE) || here_.bytes != 8) return refuse(IBV_WC_LOC_PROT_ERR);
    if (!hold_remote(IBV_ACCESS_REMOTE_ATOMIC)) return remote_access_error();
    return exchange();
  }

  Response exchange() {
    std::lock_guard guard(process_.state()->atomic_lock);
    uint64_t old = 0, fresh = 0;
    Segments buffer;
    buffer.add(reinterpret_cast<uint64_t>(&old), 8);
    pid_t pid = process_.state()->processes[peer_.owner].pid;
    if (move_bytes(pid, buffer, there_, 8, Direction::kFromPeer) != Moved::kAll) return kSilence;
    if (wqe_.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
      fresh = old + wqe_.compare_add;
    else
      fresh = old == wqe_.compare_add ? wqe_.swap : old;
    Segments fresh_buffer;
    fresh_buffer.add(reinterpret_cast<uint64_t>(&fresh), 8);
    if (move_bytes(pid, fresh_buffer, there_, 8, Direction::kToPeer) != Moved::kAll) return kSilence;
    std::memcpy(reinterpret_cast<void*>(here_.list[0].address), &old, 8);
    return done();
  }

  // ---- the peer's receive queue

  bool has_receive() const { return peer_.rq_tail.load() != peer_.rq_head.load(std::memory_order_acquire); }
  RecvEntry& receive() {
    auto* ring = process_.domain()->at<RecvEntry>(peer_.rq_ring);
    return ring[peer_.rq_tail.load() % peer_.rq_depth];
  }

  void complete_receive(ibv_wc_status status, ibv_wc_opcode opcode) {
    Cqe cqe{};
    cqe.wr_id = receive().wr_id;
    cqe.status = status;
    cqe.opcode = opcode;
    cqe.byte_len = wqe_.length;
    bool immediate = wqe_.opcode == IBV_WR_RDMA_WRITE_WITH_IMM || wqe_.opcode == IBV_WR_SEND_WITH_IMM;
    cqe.imm_data = immediate ? wqe_.imm_data : 0;
    cqe.wc_flags = immediate ? unsigned{IBV_WC_WITH_IMM} : 0;
    cqe.qp_num = peer_.qp_num.load();
    cqe.src_qp = qp_.qp_num;
    cqe.vendor_err = vendor_error(status);
    peer_.rq_tail.fetch_add(1);
    if (!push_completion(process_, peer_.recv_cq, cqe, wqe_.solicited)) break_peer(IBV_EVENT_QP_FATAL);
  }

  // ---- refusals

  Response not_ready() {
    qp_.peer_counters->add(Counter::kOutOfBuffer, 1);
    qp_.peer_counters->add(Counter::kSendRnrErr, 1);
    process_.own_counters(qp_.shared->device)->add(Counter::kRcvdRnrErr, 1);
    return {Answer::kNotReady, IBV_WC_SUCCESS, rnr_timer_ns(peer_.min_rnr_timer)};
  }

  Response fail_receive(ibv_wc_status at_receiver, ibv_wc_status at_sender) {
    qp_.peer_counters->add(Counter::kRespCqeError, 1);
    complete_receive(at_receiver, IBV_WC_RECV);
    break_peer(IBV_EVENT_QP_REQ_ERR);
    return refuse(at_sender);
  }

  Response remote_access_error() {
    qp_.peer_counters->add(Counter::kRespRemoteAccessErrors, 1);
    process_.own_counters(qp_.shared->device)->add(Counter::kReqRemoteAccessErrors, 1);
    break_peer(IBV_EVENT_QP_ACCESS_ERR);
    return refuse(IBV_WC_REM_ACCESS_ERR);
  }

  Response invalid_request() {
    process_.own_counters(qp_.shared->device)->add(Counter::kReqRemoteInvalidRequest, 1);
    break_peer(IBV_EVENT_QP_REQ_ERR);
    return refuse(IBV_WC_REM_INV_REQ_ERR);
  }

  // The owner flushes the queues; here only the state changes.
  void break_peer(ibv_event_type event) {
    peer_.state.store(IBV_QPS_ERR, std::memory_order_release);
    peer_.events.fetch_or(1u << event);
    process_.kick(peer_.owner);
  }

  // By the responder, under mlx5's names and, for sends, rxe's.
  void count_request() {
    CounterFiles* counters = qp_.peer_counters;
    if (wqe_.opcode <= IBV_WR_RDMA_WRITE_WITH_IMM) return counters->add(Counter::kRxWriteRequests, 1);
    if (wqe_.opcode == IBV_WR_RDMA_READ) return counters->add(Counter::kRxReadRequests, 1);
    if (wqe_.opcode > IBV_WR_RDMA_READ) return counters->add(Counter::kRxAtomicRequests, 1);
    counters->add(Counter::kRdmaRecvs, 1);
    process_.own_counters(qp_.shared->device)->add(Counter::kRdmaSends, 1);
  }

  Response done() {
    count_request();
    CounterFiles *sender = process_.own_counters(qp_.shared->device), *receiver = qp_.peer_counters;
    if (wqe_.opcode == IBV_WR_RDMA_READ) std::swap(sender, receiver);
    uint64_t packets =
        std::max<uint64_t>(1, (wqe_.length + qp_.shared->path_mtu_bytes - 1) / qp_.shared->path_mtu_bytes);
    sender->add(Counter::kSentPkts, packets);
    sender->add(Counter::kPortXmitPackets, packets);
    sender->add(Counter::kPortXmitData, wqe_.length / 4);  // the kernel's unit: four bytes
    receiver->add(Counter::kRcvdPkts, packets);
    receiver->add(Counter::kPortRcvPackets, packets);
    receiver->add(Counter::kPortRcvData, wqe_.length / 4);
    return {Answer::kDone};
  }

  Process& process_;
  LocalQp& qp_;
  Wqe& wqe_;
  SharedQp& peer_;
  Segments here_, there_;
  Holds holds_;
};

}  // namespace

Response execute(LocalQp& qp, Wqe& wqe, uint64_t now) {
  return Responder(qp, wqe).run(now);
}

}  // namespace softnic
