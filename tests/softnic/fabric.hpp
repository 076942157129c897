// What does every test of softnic need? A domain of its own, two ends, and waits with a deadline.
#pragma once

#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <sched.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "softnic/softnic.h"

namespace softnic_test {

using Clock = std::chrono::steady_clock;

// Sets SOFTNIC for the next device list; every test has its own domain.
inline void use_settings(const std::string& words = "") {
  static int count = 0;
  std::string domain = "domain=test-" + std::to_string(getpid()) + "-" + std::to_string(count++);
  setenv("SOFTNIC", (words.empty() ? domain : domain + "," + words).c_str(), 1);
}

inline bool eventually(const std::function<bool()>& condition,
                       std::chrono::milliseconds limit = std::chrono::seconds(20)) {
  for (auto deadline = Clock::now() + limit; Clock::now() < deadline; sched_yield())
    if (condition()) return true;
  return false;
}

inline bool readable(int fd, int timeout_ms = 20000) {
  pollfd wait{fd, POLLIN, 0};
  return poll(&wait, 1, timeout_ms) == 1;
}

inline ibv_context* open_device(unsigned index = 0) {
  int count = 0;
  ibv_device** list = ibv_get_device_list(&count);
  if (!list || static_cast<int>(index) >= count) return nullptr;
  ibv_context* context = ibv_open_device(list[index]);
  ibv_free_device_list(list);
  return context;
}

// What one end tells the other; plain data, so that it may cross a pipe.
struct Address {
  ibv_gid gid;
  uint32_t qp_num;
  uint32_t psn;
  uint32_t rkey;
  uint64_t memory;
};

struct Shape {
  unsigned device = 0;
  unsigned sq = 16, rq = 16, cq = 64;
  unsigned inline_bytes = 64;
  size_t memory = 1 << 16;
  int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
  int gid_index = 3;
  bool signal_all = false;
};

// A context with one of everything.
struct End {
  explicit End(const Shape& shape = {}) : shape_(shape), memory(shape.memory) {
    context = open_device(shape.device);
    if (!context) throw std::runtime_error("no softnic device");
    pd = ibv_alloc_pd(context);
    channel = ibv_create_comp_channel(context);
    cq = ibv_create_cq(context, static_cast<int>(shape.cq), this, channel, 0);
    mr = ibv_reg_mr(pd, memory.data(), memory.size(), shape.access);
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = cq;
    init.cap = {shape.sq, shape.rq, 4, 4, shape.inline_bytes};
    init.qp_type = IBV_QPT_RC;
    init.sq_sig_all = shape.signal_all;
    qp = ibv_create_qp(pd, &init);
    if (!pd || !cq || !mr || !qp) throw std::runtime_error("a verbs object could not be made");
  }
  ~End() {
    if (qp) ibv_destroy_qp(qp);
    if (mr) ibv_dereg_mr(mr);
    ibv_destroy_cq(cq);
    ibv_destroy_comp_channel(channel);
    ibv_dealloc_pd(pd);
    ibv_close_device(context);
  }
  End(const End&) = delete;
  End& operator=(const End&) = delete;

  Address address() const {
    Address own{};
    ibv_query_gid(context, 1, shape_.gid_index, &own.gid);
    own.qp_num = qp->qp_num;
    own.psn = 7;
    own.rkey = mr->rkey;
    own.memory = reinterpret_cast<uint64_t>(memory.data());
    return own;
  }

  ibv_qp_attr attributes(const Address& peer) const {
    ibv_qp_attr a{};
    a.port_num = 1;
    a.qp_access_flags = static_cast<unsigned>(shape_.access);
    a.path_mtu = IBV_MTU_1024;
    a.dest_qp_num = peer.qp_num;
    a.rq_psn = peer.psn;
    a.sq_psn = 7;
    a.max_rd_atomic = a.max_dest_rd_atomic = 4;
    a.min_rnr_timer = 1;
    a.ah_attr.is_global = 1;
    a.ah_attr.port_num = 1;
    a.ah_attr.grh.dgid = peer.gid;
    a.ah_attr.grh.sgid_index = static_cast<uint8_t>(shape_.gid_index);
    a.timeout = 8;  // 1 ms
    a.retry_cnt = 2;
    a.rnr_retry = 2;
    return a;
  }

  int to(ibv_qp_state state, ibv_qp_attr a, int without = 0) {
    int mask = IBV_QP_STATE;
    if (state == IBV_QPS_INIT) mask |= IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
    if (state == IBV_QPS_RTR)
      mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
              IBV_QP_MIN_RNR_TIMER;
    if (state == IBV_QPS_RTS)
      mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;
    a.qp_state = state;
    return ibv_modify_qp(qp, &a, mask & ~without);
  }

  void connect(
      const Address& peer, const std::function<void(ibv_qp_attr&)>& change = [](ibv_qp_attr&) {}) {
    ibv_qp_attr a = attributes(peer);
    change(a);
    ASSERT_EQ(to(IBV_QPS_INIT, a), 0);
    ASSERT_EQ(to(IBV_QPS_RTR, a), 0);
    ASSERT_EQ(to(IBV_QPS_RTS, a), 0);
  }

  // A request on this end's own memory; the caller changes what it likes.
  struct Request {
    ibv_sge sge{};
    ibv_send_wr wr{};
  };
  Request request(ibv_wr_opcode opcode, size_t bytes, const Address& peer, uint64_t id = 1) const {
    Request r;
    r.sge = {reinterpret_cast<uint64_t>(memory.data()), static_cast<uint32_t>(bytes), mr->lkey};
    r.wr.wr_id = id;
    r.wr.num_sge = 1;
    r.wr.opcode = opcode;
    r.wr.send_flags = IBV_SEND_SIGNALED;
    r.wr.imm_data = 0x1234;
    if (opcode >= IBV_WR_ATOMIC_CMP_AND_SWP) {
      r.wr.wr.atomic.remote_addr = peer.memory;
      r.wr.wr.atomic.rkey = peer.rkey;
    } else {
      r.wr.wr.rdma = {peer.memory, peer.rkey};
    }
    return r;
  }
  int post(Request r) const {
    ibv_send_wr* bad = nullptr;
    r.wr.sg_list = &r.sge;
    return ibv_post_send(qp, &r.wr, &bad);
  }
  int post(ibv_wr_opcode opcode, size_t bytes, const Address& peer, uint64_t id = 1) const {
    return post(request(opcode, bytes, peer, id));
  }
  int receive(size_t offset, size_t bytes, uint64_t id = 100) const {
    ibv_sge sge{reinterpret_cast<uint64_t>(memory.data()) + offset, static_cast<uint32_t>(bytes), mr->lkey};
    ibv_recv_wr wr{}, *bad = nullptr;
    wr.wr_id = id;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    return ibv_post_recv(qp, &wr, &bad);
  }

  // The next completion; status IBV_WC_GENERAL_ERR if none comes.
  ibv_wc next() const {
    ibv_wc wc{};
    if (!eventually([&] { return ibv_poll_cq(cq, 1, &wc) == 1; })) wc.status = IBV_WC_GENERAL_ERR;
    return wc;
  }
  bool nothing() const {
    ibv_wc wc{};
    return ibv_poll_cq(cq, 1, &wc) == 0;
  }
  ibv_qp_state state() const {
    ibv_qp_attr a{};
    ibv_qp_init_attr init{};
    ibv_query_qp(qp, &a, IBV_QP_STATE, &init);
    return a.qp_state;
  }
  // Waits for an async event of this type and acknowledges it.
  bool hears(ibv_event_type type) const {
    ibv_async_event event{};
    if (!readable(context->async_fd) || ibv_get_async_event(context, &event) != 0) return false;
    ibv_ack_async_event(&event);
    return event.event_type == type;
  }
  int64_t counter(const char* name) const { return softnic_counter(context, name); }

  Shape shape_;
  std::vector<uint8_t> memory;
  ibv_context* context = nullptr;
  ibv_pd* pd = nullptr;
  ibv_comp_channel* channel = nullptr;
  ibv_cq* cq = nullptr;
  ibv_mr* mr = nullptr;
  ibv_qp* qp = nullptr;
};

// Two connected ends in this process.
struct Pair {
  explicit Pair(
      const Shape& left = {}, const Shape& right = {},
      const std::function<void(ibv_qp_attr&)>& change = [](ibv_qp_attr&) {})
      : a(left), b(right) {
    a.connect(b.address(), change);
    b.connect(a.address(), change);
    for (size_t i = 0; i < a.memory.size(); i++) a.memory[i] = static_cast<uint8_t>(i * 7 + i / 256);
  }
  End a, b;
};

}  // namespace softnic_test
