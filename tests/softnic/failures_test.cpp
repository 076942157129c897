// What happens when the peer is not ready, not there, not reachable; when packets are lost; when a fault is asked for?
#include "fabric.hpp"

namespace softnic_test {
namespace {

double seconds(const std::function<void()>& work) {
  auto begin = Clock::now();
  work();
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

TEST(NotReady, WaitsForAReceiveAndGoesOn) {
  use_settings();
  Pair pair({}, {}, [](ibv_qp_attr& a) { a.rnr_retry = 7; });
  pair.a.post(IBV_WR_SEND, 8, pair.b.address());
  ASSERT_TRUE(eventually([&] { return pair.a.nothing() && pair.a.counter("rnr_nak_retry_err") >= 3; }));
  pair.b.receive(0, 64);
  EXPECT_EQ(pair.a.next().status, IBV_WC_SUCCESS);
  EXPECT_EQ(pair.b.next().status, IBV_WC_SUCCESS);
  EXPECT_GE(pair.a.counter("out_of_buffer"), 3);
}

TEST(NotReady, GivesUpAfterTheRetriesAllowed) {
  use_settings();
  Pair pair({}, {}, [](ibv_qp_attr& a) { a.min_rnr_timer = 14; });  // 1 ms
  double took = seconds([&] {
    pair.a.post(IBV_WR_SEND, 8, pair.b.address());
    ibv_wc wc = pair.a.next();
    EXPECT_EQ(wc.status, IBV_WC_RNR_RETRY_EXC_ERR);
    EXPECT_EQ(wc.vendor_err, 135u);
  });
  EXPECT_GE(took, 0.0025) << "two retries of 1.28 ms";
  EXPECT_EQ(pair.a.counter("rnr_nak_retry_err"), 2);
}

// The status and time of one write after `change`; timeout 1 ms, 2 retries.
void expect_no_answer(Pair& pair) {
  double took = seconds([&] {
    pair.a.post(IBV_WR_RDMA_WRITE, 8, pair.b.address());
    pair.a.post(IBV_WR_RDMA_WRITE, 8, pair.b.address(), 2);
    ibv_wc wc = pair.a.next();
    EXPECT_EQ(wc.status, IBV_WC_RETRY_EXC_ERR);
    EXPECT_EQ(wc.vendor_err, 129u);
    EXPECT_EQ(pair.a.next().status, IBV_WC_WR_FLUSH_ERR);
  });
  EXPECT_GE(took, 3 * 0.00104) << "three attempts of 4.096 us x 2^8";
  EXPECT_EQ(pair.b.state() == IBV_QPS_RTS || pair.b.state() == IBV_QPS_ERR, true);
}

TEST(NoAnswer, WhenThePeersQueuePairIsInError) {
  use_settings();
  Pair pair;
  pair.b.to(IBV_QPS_ERR, {});
  expect_no_answer(pair);
  EXPECT_EQ(pair.a.counter("local_ack_timeout_err"), 3);
  EXPECT_EQ(pair.a.counter("retry_exceeded_err"), 1);
}

TEST(NoAnswer, WhenThePeersQueuePairIsGone) {
  use_settings();
  End a;
  Address gone;
  {
    End b;
    gone = b.address();
    a.connect(gone);
    b.connect(a.address());
  }
  End next;  // may sit where the old one was
  next.connect(a.address());
  a.post(IBV_WR_RDMA_WRITE, 8, gone);
  EXPECT_EQ(a.next().status, IBV_WC_RETRY_EXC_ERR);
}

TEST(NoAnswer, WhenThePortIsDown) {
  use_settings();
  Pair pair;
  softnic_set_port(pair.a.context, 0);
  expect_no_answer(pair);
}

TEST(NoAnswer, WhenTheSequenceNumbersDiffer) {
  use_settings();
  End a, b;
  a.connect(b.address(), [](ibv_qp_attr& attributes) { attributes.sq_psn = 8; });
  b.connect(a.address());
  a.post(IBV_WR_RDMA_WRITE, 8, b.address());
  EXPECT_EQ(a.next().status, IBV_WC_RETRY_EXC_ERR);
}

TEST(NoAnswer, WhenTheGidsAreOfDifferentVersionsOrFamilies) {
  for (int index : {0, 1, 2}) {
    use_settings();
    Shape other;
    other.gid_index = index;
    Pair pair({}, other);
    pair.a.post(IBV_WR_RDMA_WRITE, 8, pair.b.address());
    EXPECT_EQ(pair.a.next().status, IBV_WC_RETRY_EXC_ERR) << index;
  }
}

TEST(NoAnswer, UntilThePeerIsReadyToReceive) {
  use_settings();
  End a, b;
  auto patient = [](ibv_qp_attr& attributes) { attributes.timeout = 14, attributes.retry_cnt = 7; };
  a.connect(b.address(), patient);
  a.post(IBV_WR_RDMA_WRITE, 8, b.address());
  ASSERT_TRUE(eventually([&] { return a.nothing() && a.counter("local_ack_timeout_err") >= 1; }));
  b.connect(a.address());
  EXPECT_EQ(a.next().status, IBV_WC_SUCCESS);
}

// ---- the port

TEST(Port, AFlapShorterThanTheRetriesIsSurvived) {
  use_settings();
  Pair pair({}, {}, [](ibv_qp_attr& a) { a.timeout = 14, a.retry_cnt = 7; });  // 67 ms x 8
  softnic_set_port(pair.a.context, 0);
  pair.a.post(IBV_WR_RDMA_WRITE, 8, pair.b.address());
  EXPECT_TRUE(pair.a.hears(IBV_EVENT_PORT_ERR));
  ibv_port_attr port{};
  ibv_query_port(pair.a.context, 1, &port);
  EXPECT_EQ(port.state, IBV_PORT_DOWN);
  EXPECT_EQ(pair.a.counter("link_downed"), 1) << "two contexts, one port";
  softnic_set_port(pair.a.context, 1);
  EXPECT_TRUE(pair.a.hears(IBV_EVENT_PORT_ACTIVE));
  EXPECT_EQ(pair.a.next().status, IBV_WC_SUCCESS);
}

TEST(Port, GoesDownAndUpAtTheMomentsOfTheSettings) {
  // Far apart: whoever does not get a core between the two has seen no change.
  use_settings("down=dev0@300ms,up=dev0@1300ms");
  auto begin = Clock::now();
  ibv_context *zero = open_device(0), *one = open_device(1);
  for (ibv_event_type expected : {IBV_EVENT_PORT_ERR, IBV_EVENT_PORT_ACTIVE}) {
    ibv_async_event event{};
    ASSERT_TRUE(readable(zero->async_fd));
    ASSERT_EQ(ibv_get_async_event(zero, &event), 0);
    EXPECT_EQ(event.event_type, expected);
    EXPECT_EQ(event.element.port_num, 1);
    ibv_ack_async_event(&event);
  }
  EXPECT_GE(Clock::now() - begin, std::chrono::milliseconds(1299));
  EXPECT_FALSE(readable(one->async_fd, 0)) << "the other device is not concerned";
  ibv_close_device(zero);
  ibv_close_device(one);
}

// ---- the wire

TEST(Wire, RateAndLatencyAreKept) {
  use_settings("rate=1g,latency=3ms");
  Shape big;
  big.memory = 1 << 20;
  Pair pair(big, big);
  double took = seconds([&] {
    for (uint64_t i = 0; i < 4; i++) pair.a.post(IBV_WR_RDMA_WRITE, 1 << 20, pair.b.address(), i);
    for (uint64_t i = 0; i < 4; i++) EXPECT_EQ(pair.a.next().status, IBV_WC_SUCCESS);
  });
  double least = 4 * 8.0 * (1 << 20) / 1e9 + 2 * 0.003;  // the last acknowledgement travels back
  EXPECT_GE(took, least);
  EXPECT_LT(took, least + 1) << "whatever else the machine does";
}

TEST(Wire, QueuePairsShareTheRateOfTheirPort) {
  use_settings("rate=1g");
  Shape big;
  big.memory = 1 << 20;
  Pair one(big, big), two(big, big);
  double took = seconds([&] {
    one.a.post(IBV_WR_RDMA_WRITE, 1 << 20, one.b.address());
    two.a.post(IBV_WR_RDMA_WRITE, 1 << 20, two.b.address());
    EXPECT_EQ(one.a.next().status, IBV_WC_SUCCESS);
    EXPECT_EQ(two.a.next().status, IBV_WC_SUCCESS);
  });
  EXPECT_GE(took, 2 * 8.0 * (1 << 20) / 1e9);
}

TEST(Wire, DoorbellsCostTheirTime) {
  use_settings("doorbell=1ms");
  Pair pair;
  double took = seconds([&] {
    for (int i = 0; i < 5; i++) pair.a.post(IBV_WR_RDMA_WRITE, 8, pair.b.address());
  });
  EXPECT_GE(took, 0.005);
  EXPECT_EQ(pair.a.counter("doorbells"), 5);
}

TEST(Loss, CostsTimeAndIsCountedButTheDataIsRight) {
  use_settings("loss=2%,seed=3,rate=10g,latency=5us");
  Shape deep;
  deep.sq = deep.rq = 64;
  deep.cq = 256;
  deep.memory = 1 << 20;
  Pair pair(deep, deep, [](ibv_qp_attr& a) { a.timeout = 6, a.retry_cnt = 7; });
  for (int round = 0; round < 4; round++) {
    for (size_t i = 0; i < 64; i++) {
      auto r = pair.a.request(IBV_WR_RDMA_WRITE, 16384, pair.b.address(), i);
      r.sge.addr += i * 16384;
      r.wr.wr.rdma.remote_addr += i * 16384;
      ASSERT_EQ(pair.a.post(r), 0);
    }
    for (size_t i = 0; i < 64; i++) {
      ibv_wc wc = pair.a.next();
      ASSERT_EQ(wc.status, IBV_WC_SUCCESS);
      ASSERT_EQ(wc.wr_id, i);
    }
  }
  EXPECT_EQ(pair.a.memory, pair.b.memory);
  int64_t lost = pair.a.counter("packet_seq_err") + pair.a.counter("local_ack_timeout_err");
  EXPECT_GT(lost, 20) << "4096 packets, 2 %";
  EXPECT_LT(lost, 300);
  EXPECT_EQ(pair.a.counter("out_of_sequence"), pair.a.counter("packet_seq_err"));
}

TEST(Loss, OfNearlyEverythingExceedsTheRetries) {
  use_settings("loss=95%");
  Pair pair({}, {}, [](ibv_qp_attr& a) { a.timeout = 5, a.retry_cnt = 1; });
  pair.a.post(IBV_WR_RDMA_WRITE, 60000, pair.b.address());
  EXPECT_EQ(pair.a.next().status, IBV_WC_RETRY_EXC_ERR);
}

// ---- faults on order

TEST(Fault, StrikesTheRequestThatWasNamed) {
  use_settings("fail=dev0:qp-send:3:REM_OP_ERR");
  Pair pair;
  for (uint64_t i = 1; i <= 4; i++) pair.a.post(IBV_WR_RDMA_WRITE, 8, pair.b.address(), i);
  EXPECT_EQ(pair.a.next().status, IBV_WC_SUCCESS);
  EXPECT_EQ(pair.a.next().status, IBV_WC_SUCCESS);
  ibv_wc wc = pair.a.next();
  EXPECT_EQ(wc.wr_id, 3u);
  EXPECT_EQ(wc.status, IBV_WC_REM_OP_ERR);
  EXPECT_EQ(pair.a.next().status, IBV_WC_WR_FLUSH_ERR);
}

TEST(Fault, MayLoseOnlyTheAcknowledgement) {
  for (const bool done : {true, false}) {
    use_settings(std::string("fail=dev0:qp-send:2:RETRY_EXC_ERR") + (done ? ":done" : ""));
    Pair pair;
    std::memset(pair.b.memory.data(), 0, 64);
    std::memset(pair.a.memory.data(), 7, 64);
    auto to = pair.b.address();
    for (uint64_t i = 1; i <= 3; i++, to.memory += 8) pair.a.post(IBV_WR_RDMA_WRITE, 8, to, i);
    EXPECT_EQ(pair.a.next().status, IBV_WC_SUCCESS);
    EXPECT_EQ(pair.a.next().status, IBV_WC_RETRY_EXC_ERR);
    EXPECT_EQ(pair.a.next().status, IBV_WC_WR_FLUSH_ERR);
    EXPECT_EQ(pair.b.memory[0], 7);
    EXPECT_EQ(pair.b.memory[8], done ? 7 : 0);
    EXPECT_EQ(pair.b.memory[16], 0);
  }
}

TEST(Fault, CountsOnlyRequestsOfItsKindAndDevice) {
  use_settings("fail=dev1:read:1:REM_ABORT_ERR");
  Shape second;
  second.device = 1;
  Pair other, pair(second, second);
  other.a.post(IBV_WR_RDMA_READ, 8, other.b.address());
  EXPECT_EQ(other.a.next().status, IBV_WC_SUCCESS);
  pair.a.post(IBV_WR_RDMA_WRITE, 8, pair.b.address());
  EXPECT_EQ(pair.a.next().status, IBV_WC_SUCCESS);
  pair.a.post(IBV_WR_RDMA_READ, 8, pair.b.address());
  EXPECT_EQ(pair.a.next().status, IBV_WC_REM_ABORT_ERR);
}

}  // namespace
}  // namespace softnic_test
