// What stands behind the pointers that an application gets? Each object begins with the public struct of verbs.h.
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "softnic/clock.hpp"
#include "softnic/layout.hpp"

namespace softnic {

class Process;
struct LocalQp;

struct LocalDevice : ibv_device {
  Process* process;
  unsigned index;
};

struct LocalContext : ibv_context {
  std::shared_ptr<Process> owner;  // the domain stays joined while a context is open
  unsigned index;                  // of the device
  int async_write_fd;
  bool port_up;  // as last reported
};

struct LocalPd : ibv_pd {
  uint32_t id;
  std::atomic<int> users;
};

struct LocalChannel : ibv_comp_channel {
  int write_fd;
  uint64_t id;
};

struct LocalCq : ibv_cq {
  Process* process;
  uint32_t index;
  SharedCq* shared;
  std::mutex senders_mutex;
  std::vector<LocalQp*> senders;  // queue pairs whose send completions come here
  std::atomic<int> users{0};
  std::atomic<uint64_t> last_poll_ns{0};  // 0: the application sleeps or never polled
  uint32_t comp_events_delivered = 0;     // these two under the public mutex
  uint32_t async_events_delivered = 0;
};

struct Wqe {
  uint64_t wr_id;
  uint64_t due_ns;  // when the last byte is at the peer
  uint64_t ack_ns;  // when the requester knows
  uint64_t wire_ns;
  uint64_t remote_address;
  uint64_t compare_add;
  uint64_t swap;
  uint32_t rkey;
  uint32_t imm_data;
  uint32_t length;
  uint32_t opcode;
  uint32_t sge_count;
  uint32_t fault;  // ibv_wc_status to complete with instead, perhaps with kFaultDone; 0: none
  uint16_t lost;   // attempts without an answer
  uint16_t not_ready;
  bool signaled, solicited, has_inline, received;  // received: the port of the peer has taken its time already
  ibv_sge sges[kMaxSge];
};

struct LocalQp : ibv_qp {
  Process* process;
  SharedQp* shared;
  ibv_qp_attr attributes{};
  ibv_qp_init_attr init{};

  // The port at the other end, known from RTR on; null: no port has that GID.
  SharedPort* peer_port = nullptr;
  CounterFiles* peer_counters = nullptr;
  uint32_t peer_host = 0, peer_device = 0;

  // Positions grow for ever; slot = position % depth. sq_tail <= done <= executed <= head.
  std::mutex send_mutex;
  std::vector<Wqe> sq;
  std::vector<char> inline_data;  // max_inline_data bytes per slot
  uint64_t head = 0, executed = 0, done = 0, drain_mark = 0;
  std::atomic<uint64_t> sq_tail{0};  // moved by polling
  uint64_t tx_free_ns = 0;
  uint64_t random = 0;
  bool flushed = false, drained_reported = false;
  std::atomic<uint64_t> next_due_ns{kNever};
  uint32_t async_events_delivered = 0;  // under the public mutex
};

template <typename Local, typename Public>
Local* local(Public* object) {
  return static_cast<Local*>(object);
}

}  // namespace softnic
