// What lies in the memory that all processes of a domain share? Only plain data, indices and offsets: no pointers to
// follow, except those that are meant for the process that owns the object.
#pragma once

#include <infiniband/verbs.h>
#include <sys/types.h>

#include <atomic>
#include <cstdint>

#include "softnic/counters.hpp"
#include "softnic/robust_mutex.hpp"
#include "softnic/settings.hpp"

namespace softnic {

constexpr uint32_t kLayoutVersion = 3;  // processes with different builds of softnic do not meet
constexpr uint32_t kMaxProcesses = 256;
constexpr uint32_t kMaxQps = 4096;  // a power of two: the low bits of a QP number
constexpr uint32_t kMaxCqs = 4096;
constexpr uint32_t kMaxMrs = 16384;  // a power of two: the low bits of a key
constexpr uint32_t kMaxSge = 16;
constexpr uint32_t kMaxWr = 16384;
constexpr uint32_t kMaxCqe = 1 << 17;
constexpr uint32_t kMaxPortChanges = 16;
constexpr uint32_t kPageBytes = 4096;
constexpr uint32_t kHeapPages = 1 << 16;
constexpr uint32_t kNoOwner = UINT32_MAX;

struct SharedProcess {
  RobustMutex life;  // held by the process's helper thread from joining to leaving
  std::atomic<uint32_t> in_use;
  pid_t pid;
  std::atomic<uint32_t> wake;         // futex word of the helper
  std::atomic<uint32_t> kick;         // a peer changed something that this process must look at
  std::atomic<uint64_t> sleep_until;  // until when the helper sleeps
};

struct SharedPort {
  std::atomic<uint32_t> ready;
  std::atomic<int32_t> forced;  // -1: by the changes; 0, 1: held down, up
  std::atomic<uint32_t> down_counted;
  uint64_t opened_ns;
  uint32_t change_count;
  PortChange changes[kMaxPortChanges];
  double ns_per_byte;
  uint32_t net;         // the subnet that it lies in
  uint32_t infiniband;  // 1: InfiniBand, 0: Ethernet
  std::atomic<uint64_t> tx_free_ns;
  std::atomic<uint64_t> rx_free_ns;
  CounterValues counters;
};

struct SharedMr {
  std::atomic<uint32_t> key;    // 0: free
  std::atomic<uint32_t> users;  // transfers in progress
  uint32_t generation;
  uint32_t owner;
  uint32_t pd;
  uint32_t access;
  uint64_t address;
  uint64_t length;
  uint64_t iova;
};

struct Cqe {
  uint64_t wr_id;
  uint64_t sender;   // the owner's LocalQp for a send completion; 0 for a receive completion
  uint64_t sq_tail;  // slots of the send queue below this are free once the completion is polled
  uint32_t status;
  uint32_t opcode;
  uint32_t vendor_err;
  uint32_t byte_len;
  uint32_t imm_data;
  uint32_t qp_num;
  uint32_t src_qp;
  uint32_t wc_flags;
};
static_assert(sizeof(Cqe) == 56);

enum CqArm : uint32_t { kNotArmed, kArmedSolicited, kArmedAny };

struct SharedCq {
  RobustMutex lock;
  std::atomic<uint32_t> handle;  // 0: free; index + generation
  uint32_t generation;
  uint32_t owner;
  uint32_t depth;
  std::atomic<uint64_t> produced;
  std::atomic<uint64_t> consumed;
  uint64_t ring;  // offset of Cqe[depth]
  uint32_t pages;
  uint32_t armed;
  std::atomic<uint32_t> overrun;
  uint32_t overrun_reported;
  int32_t channel_fd;   // of the owner; -1: no channel
  uint64_t channel_id;  // never used again
};

struct RecvEntry {
  uint64_t wr_id;
  uint32_t sge_count;
  ibv_sge sges[kMaxSge];
};

// What the sender of the other side must see of a queue pair: the responder's half.
struct SharedQp {
  RobustMutex lock;
  std::atomic<uint32_t> qp_num;  // 0: free
  std::atomic<uint32_t> state;   // ibv_qp_state
  std::atomic<uint32_t> events;  // bits by ibv_event_type, set by a peer, reported by the owner
  uint32_t generation;
  uint32_t owner;
  uint32_t host, device;
  uint32_t pd;
  uint32_t access;
  uint32_t path_mtu_bytes;
  uint32_t dest_qp_num;
  uint32_t rq_psn;
  uint32_t gid_version;  // 1, 2
  uint32_t min_rnr_timer;
  uint32_t max_dest_rd_atomic;
  uint32_t recv_cq;  // index
  uint32_t rq_depth;
  uint32_t rq_pages;
  uint64_t rq_ring;  // offset of RecvEntry[rq_depth]
  std::atomic<uint64_t> rq_head, rq_tail;
};

struct SharedState {
  std::atomic<uint32_t> version;
  RobustMutex lock;         // creation and destruction of everything below
  RobustMutex atomic_lock;  // fetch-add and compare-swap: atomic for the whole domain
  std::atomic<uint64_t> next_id;
  SharedProcess processes[kMaxProcesses];
  SharedPort ports[kMaxHosts][kMaxDevices];
  SharedQp qps[kMaxQps];
  SharedCq cqs[kMaxCqs];
  SharedMr mrs[kMaxMrs];
  uint8_t heap_used[kHeapPages];
};

constexpr uint64_t kHeapOffset = (sizeof(SharedState) + kPageBytes - 1) / kPageBytes * kPageBytes;
constexpr uint64_t kSegmentBytes = kHeapOffset + uint64_t{kHeapPages} * kPageBytes;

}  // namespace softnic
