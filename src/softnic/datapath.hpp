// The steps of a work request: posted, on the wire, executed at the peer, completed. One file each.
#pragma once

#include "softnic/process.hpp"

namespace softnic {

// wire.cpp: sets due_ns and wire_ns of a new request, with what losses cost it.
void send_on_wire(LocalQp& qp, Wqe& wqe, uint64_t now);
// Books the port that receives; true: the request must wait until its new due_ns.
bool wait_for_receiver(LocalQp& qp, Wqe& wqe, uint64_t now);
uint64_t ack_timeout_ns(const LocalQp& qp);

// responder.cpp: what the peer answers.
enum class Answer : uint8_t { kDone, kNone, kNotReady, kError };
struct Response {
  Answer answer;
  ibv_wc_status status = IBV_WC_SUCCESS;  // with kError
  uint64_t retry_after_ns = 0;            // with kNotReady
};
Response execute(LocalQp& qp, Wqe& wqe, uint64_t now);

// transfer.cpp: bytes between this process and another one (or itself).
enum class Moved : uint8_t { kAll, kPeerGone, kFault };
struct Segment {
  uint64_t address;
  uint64_t length;
};
struct Segments {
  Segment list[kMaxSge];
  uint32_t count = 0;
  uint64_t bytes = 0;
  void add(uint64_t address, uint64_t length) {
    list[count++] = {address, length};
    bytes += length;
  }
};
enum class Direction : uint8_t { kToPeer, kFromPeer };
Moved move_bytes(pid_t peer, const Segments& here, const Segments& there, uint64_t bytes, Direction direction);

// send_queue.cpp: runs what is due; send_mutex is held.
void progress(LocalQp& qp, uint64_t now);
int post_send(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad_wr);
// receive_queue.cpp
int post_recv(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad_wr);
void flush_receives(LocalQp& qp);

// completion.cpp. False: the queue overran.
bool push_completion(Process& process, uint32_t cq_index, const Cqe& cqe, bool solicited);
int poll_cq(ibv_cq* cq, int count, ibv_wc* completions);
int req_notify_cq(ibv_cq* cq, int solicited_only);
// Removes the queue pair's completions from the queue.
void purge_completions(LocalCq& cq, uint32_t qp_num);
uint32_t vendor_error(ibv_wc_status status);

// async_events.cpp
void report_event(LocalContext* context, ibv_event_type type, void* object);

}  // namespace softnic
