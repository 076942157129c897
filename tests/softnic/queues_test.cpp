// Do the queues have ends, keep order, and wake who sleeps on them?
#include <fcntl.h>

#include "fabric.hpp"

namespace softnic_test {
namespace {

TEST(SendQueue, IsFullAtItsDepthAndSaysWhichRequest) {
  use_settings("latency=1ms");
  Shape four;
  four.sq = 4;
  Pair pair(four);
  Address b = pair.b.address();
  ibv_send_wr list[6], *bad = nullptr;
  ibv_sge sge = pair.a.request(IBV_WR_RDMA_WRITE, 8, b).sge;
  for (int i = 0; i < 6; i++) {
    list[i] = pair.a.request(IBV_WR_RDMA_WRITE, 8, b, static_cast<uint64_t>(i)).wr;
    list[i].sg_list = &sge;
    list[i].next = i < 5 ? &list[i + 1] : nullptr;
  }
  EXPECT_EQ(ibv_post_send(pair.a.qp, list, &bad), ENOMEM);
  EXPECT_EQ(bad, &list[4]) << "the first four were taken";
  for (uint64_t i = 0; i < 4; i++) EXPECT_EQ(pair.a.next().wr_id, i);
  EXPECT_EQ(pair.a.counter("doorbells"), 1) << "a list is one doorbell";
  EXPECT_EQ(pair.a.post(IBV_WR_RDMA_WRITE, 8, b), 0);
}

TEST(SendQueue, UnsignalledRequestsHoldTheirSlots) {
  use_settings();
  Shape four;
  four.sq = 4;
  Pair pair(four);
  Address b = pair.b.address();
  auto quiet = pair.a.request(IBV_WR_RDMA_WRITE, 8, b);
  quiet.wr.send_flags = 0;
  for (int i = 0; i < 3; i++) ASSERT_EQ(pair.a.post(quiet), 0);
  ASSERT_EQ(pair.a.post(IBV_WR_RDMA_WRITE, 8, b, 9), 0);
  EXPECT_EQ(pair.a.post(quiet), ENOMEM) << "done long ago, but nobody polled the signalled one behind them";
  EXPECT_EQ(pair.a.next().wr_id, 9u);
  EXPECT_TRUE(pair.a.nothing());
  for (int i = 0; i < 4; i++) EXPECT_EQ(pair.a.post(quiet), 0) << "all four are free again";
  EXPECT_EQ(pair.a.post(quiet), ENOMEM) << "and without a signalled one they stay taken";
}

TEST(SendQueue, KeepsOrder) {
  use_settings("latency=50us,rate=10g");
  Shape deep;
  deep.sq = deep.rq = 64;
  deep.cq = 256;
  Pair pair(deep, deep);
  for (uint64_t i = 0; i < 64; i++) pair.b.receive(0, 4096, i);
  for (uint64_t i = 0; i < 64; i++)
    ASSERT_EQ(pair.a.post(i % 2 ? IBV_WR_SEND : IBV_WR_RDMA_WRITE_WITH_IMM, (i * 997) % 4096, pair.b.address(), i), 0);
  for (uint64_t i = 0; i < 64; i++) {
    EXPECT_EQ(pair.a.next().wr_id, i);
    EXPECT_EQ(pair.b.next().wr_id, i);
  }
}

TEST(ReceiveQueue, IsFullAtItsDepth) {
  use_settings();
  Shape two;
  two.rq = 2;
  Pair pair({}, two);
  EXPECT_EQ(pair.b.receive(0, 8), 0);
  EXPECT_EQ(pair.b.receive(0, 8), 0);
  EXPECT_EQ(pair.b.receive(0, 8), ENOMEM);
  pair.a.post(IBV_WR_SEND, 8, pair.b.address());
  EXPECT_EQ(pair.b.next().status, IBV_WC_SUCCESS);
  EXPECT_EQ(pair.b.receive(0, 8), 0);
}

TEST(CompletionQueue, OverrunIsAnEventAndBreaksTheQueuePair) {
  use_settings();
  Shape tiny;
  tiny.cq = 2;
  Pair pair(tiny);
  for (uint64_t i = 0; i < 3; i++) pair.a.post(IBV_WR_RDMA_WRITE, 8, pair.b.address(), i);
  bool cq_error = false, fatal = false;
  ASSERT_TRUE(eventually([&] {
    ibv_async_event event{};
    if (!readable(pair.a.context->async_fd, 100) || ibv_get_async_event(pair.a.context, &event) != 0) return false;
    cq_error |= event.event_type == IBV_EVENT_CQ_ERR && event.element.cq == pair.a.cq;
    fatal |= event.event_type == IBV_EVENT_QP_FATAL && event.element.qp == pair.a.qp;
    ibv_ack_async_event(&event);
    return cq_error && fatal;
  }));
  EXPECT_EQ(pair.a.next().wr_id, 0u);
  EXPECT_EQ(pair.a.next().wr_id, 1u);
  EXPECT_EQ(pair.a.state(), IBV_QPS_ERR);
}

TEST(Flush, EndsEverythingThatIsQueuedOnBothQueues) {
  use_settings("latency=100ms");
  Pair pair;
  auto quiet = pair.a.request(IBV_WR_RDMA_WRITE, 8, pair.b.address(), 1);
  quiet.wr.send_flags = 0;
  pair.a.post(quiet);
  pair.a.post(IBV_WR_RDMA_WRITE, 8, pair.b.address(), 2);
  pair.a.receive(0, 8, 50);
  ASSERT_EQ(pair.a.to(IBV_QPS_ERR, {}), 0);
  for (uint64_t id : {1, 2, 50}) {
    ibv_wc wc = pair.a.next();
    EXPECT_EQ(wc.wr_id, id);
    EXPECT_EQ(wc.status, IBV_WC_WR_FLUSH_ERR) << "unsignalled ones too";
    EXPECT_EQ(wc.qp_num, pair.a.qp->qp_num);
  }
  pair.a.post(IBV_WR_RDMA_WRITE, 8, pair.b.address(), 3);
  EXPECT_EQ(pair.a.next().status, IBV_WC_WR_FLUSH_ERR) << "what is posted in ERR is flushed at once";
  pair.a.receive(0, 8, 51);
  EXPECT_EQ(pair.a.next().wr_id, 51u);
  EXPECT_EQ(pair.a.counter("req_cqe_flush_error"), 3);
}

TEST(Flush, ResetForgetsEverything) {
  use_settings();
  Pair pair;
  pair.a.post(IBV_WR_RDMA_WRITE, 8, pair.b.address(), 1);
  pair.a.receive(0, 8);
  ASSERT_EQ(pair.a.to(IBV_QPS_RESET, {}), 0);
  EXPECT_TRUE(pair.a.nothing());
}

// ---- sleeping

TEST(Channel, WakesASleeperWhenTheWireDelivers) {
  use_settings("latency=2ms");
  Pair pair;
  ASSERT_EQ(ibv_req_notify_cq(pair.b.cq, 0), 0);
  pair.b.receive(0, 64);
  ASSERT_EQ(pair.a.post(IBV_WR_SEND, 64, pair.b.address()), 0);
  // Nobody polls: only the helper thread can move this on.
  ASSERT_TRUE(readable(pair.b.channel->fd));
  ibv_cq* cq = nullptr;
  void* user = nullptr;
  ASSERT_EQ(ibv_get_cq_event(pair.b.channel, &cq, &user), 0);
  EXPECT_EQ(cq, pair.b.cq);
  EXPECT_EQ(user, &pair.b);
  ibv_ack_cq_events(cq, 1);
  EXPECT_EQ(pair.b.next().status, IBV_WC_SUCCESS);
}

TEST(Channel, OneArmingIsOneEvent) {
  use_settings();
  Pair pair;
  ibv_req_notify_cq(pair.b.cq, 0);
  for (int i = 0; i < 3; i++) {
    pair.b.receive(0, 64);
    pair.a.post(IBV_WR_SEND, 8, pair.b.address());
  }
  for (int i = 0; i < 3; i++) EXPECT_EQ(pair.b.next().status, IBV_WC_SUCCESS);
  ibv_cq* cq = nullptr;
  void* user = nullptr;
  ASSERT_EQ(ibv_get_cq_event(pair.b.channel, &cq, &user), 0);
  ibv_ack_cq_events(cq, 1);
  EXPECT_FALSE(readable(pair.b.channel->fd, 0));
}

TEST(Channel, SolicitedOnlyIgnoresTheRestButNotErrors) {
  use_settings();
  Pair pair;
  ibv_req_notify_cq(pair.b.cq, 1);
  for (int i = 0; i < 3; i++) pair.b.receive(0, 64);
  pair.a.post(IBV_WR_SEND, 8, pair.b.address());
  ASSERT_EQ(pair.b.next().status, IBV_WC_SUCCESS);
  EXPECT_FALSE(readable(pair.b.channel->fd, 0));
  auto r = pair.a.request(IBV_WR_SEND, 8, pair.b.address());
  r.wr.send_flags |= IBV_SEND_SOLICITED;
  pair.a.post(r);
  EXPECT_TRUE(readable(pair.b.channel->fd, 1000));
  ibv_cq* cq = nullptr;
  void* user = nullptr;
  ibv_get_cq_event(pair.b.channel, &cq, &user);
  ibv_ack_cq_events(cq, 1);
  ibv_req_notify_cq(pair.b.cq, 1);
  pair.b.to(IBV_QPS_ERR, {});
  EXPECT_TRUE(readable(pair.b.channel->fd, 1000)) << "a failed completion counts as solicited";
}

}  // namespace
}  // namespace softnic_test
