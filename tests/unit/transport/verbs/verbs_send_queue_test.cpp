// How many doorbells, signals and requests in flight? A queue pair that only writes down what is posted to it.
#include "transport/verbs/verbs_send_queue.hpp"

#include <gtest/gtest.h>

#include <memory>

namespace twohop::verbs {
namespace {

struct Posted {
  uint64_t wr_id = 0;
  bool signalled = false;
};

/// A context whose post_send records; one per test.
class Recorder {
 public:
  Recorder() {
    context_.ops.post_send = [](ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr**) {
      auto& self = *static_cast<Recorder*>(qp->qp_context);
      self.doorbells.emplace_back();
      for (; wr; wr = wr->next) self.doorbells.back().push_back({wr->wr_id, (wr->send_flags & IBV_SEND_SIGNALED) != 0});
      return self.refusal;
    };
    qp_.context = &context_;
    qp_.qp_context = this;
  }
  ibv_qp* qp() { return &qp_; }

  std::vector<std::vector<Posted>> doorbells;
  int refusal = 0;

 private:
  ibv_context context_{};
  ibv_qp qp_{};
};

class SendQueueTest : public ::testing::Test {
 protected:
  void make(const SendRules& rules) { queue = std::make_unique<SendQueue>(recorder.qp(), 5, 1000, rules, &counters); }
  void add(int count, uint32_t bytes, bool wants_done = true) {
    for (int i = 0; i < count; ++i) {
      Request& r = queue->append();
      r.sge.length = bytes;
      r.wr.num_sge = bytes > 0;
      r.wants_done = wants_done;
    }
  }
  /// Completes what has been posted, up to the last signalled request.
  void complete() {
    const Posted* last = nullptr;
    for (const auto& batch : recorder.doorbells)
      for (const Posted& p : batch)
        if (p.signalled) last = &p;
    ASSERT_NE(last, nullptr);
    queue->finish(last->wr_id, [&](const Request&) { ++finished; });
  }
  size_t signalled() const {
    size_t n = 0;
    for (const auto& batch : recorder.doorbells)
      for (const Posted& p : batch) n += p.signalled;
    return n;
  }

  Recorder recorder;
  EndpointCounters counters;
  std::unique_ptr<SendQueue> queue;
  int finished = 0;
};

TEST_F(SendQueueTest, PostsAllThatIsReadyWithOneDoorbell) {
  make({.hold_bytes = 1 << 20});
  add(20, 1000);
  EXPECT_EQ(queue->post(), 0);
  ASSERT_EQ(recorder.doorbells.size(), 1u);
  EXPECT_EQ(recorder.doorbells[0].size(), 20u);
  EXPECT_EQ(signalled(), 1u);
  EXPECT_TRUE(recorder.doorbells[0].back().signalled);
  EXPECT_EQ(counters.doorbells, 1u);
  EXPECT_EQ(counters.work_requests, 20u);
  EXPECT_EQ(counters.signalled_completions, 1u);
  complete();
  EXPECT_EQ(finished, 20);
  EXPECT_TRUE(queue->idle());
}

TEST_F(SendQueueTest, IsOwedACompletionUpToTheLastSignalledRequestOnly) {
  make({.hold_bytes = 1 << 20, .signal_every = 64});
  EXPECT_FALSE(queue->completion_due());
  add(3, 100);
  EXPECT_EQ(queue->post(), 0);
  EXPECT_TRUE(queue->completion_due());
  complete();
  EXPECT_FALSE(queue->completion_due());
  EXPECT_EQ(queue->finished(), 3u);
  queue->append().wr.opcode = IBV_WR_RDMA_WRITE;  // like a credit: nobody waits for it
  EXPECT_EQ(queue->post(), 0);
  EXPECT_FALSE(queue->idle());
  EXPECT_FALSE(queue->completion_due()) << "the device says nothing of it";
}

TEST_F(SendQueueTest, RingsForEveryRequestWhenTheBatchIsOne) {
  make({.batch = 1, .hold_bytes = 1 << 20});
  add(7, 100);
  EXPECT_EQ(queue->post(), 0);
  EXPECT_EQ(recorder.doorbells.size(), 7u);
}

TEST_F(SendQueueTest, NeverHoldsALoneMessage) {
  make({.hold_bytes = 0});
  add(1, 1 << 20);
  EXPECT_EQ(queue->post(), 0);
  EXPECT_EQ(recorder.doorbells.size(), 1u);
}

TEST_F(SendQueueTest, HoldsABatchWhileTheWireIsBusy) {
  make({.batch = 8, .hold_bytes = 1000});
  add(1, 2000);
  EXPECT_EQ(queue->post(), 0);
  add(3, 100);
  EXPECT_EQ(queue->post(), 0);
  EXPECT_EQ(recorder.doorbells.size(), 1u) << "2000 bytes are on their way";
  complete();
  EXPECT_EQ(queue->post(), 0);
  ASSERT_EQ(recorder.doorbells.size(), 2u);
  EXPECT_EQ(recorder.doorbells[1].size(), 3u);
}

TEST_F(SendQueueTest, DoesNotHoldAFullBatch) {
  make({.batch = 4, .hold_bytes = 1000});
  add(1, 2000);
  EXPECT_EQ(queue->post(), 0);
  add(5, 100);
  EXPECT_EQ(queue->post(), 0);
  ASSERT_EQ(recorder.doorbells.size(), 2u);
  EXPECT_EQ(recorder.doorbells[1].size(), 4u);
  EXPECT_EQ(queue->waiting(), 1u);
}

TEST_F(SendQueueTest, NeverHasMorePostedThanAllowed) {
  make({.max_posted = 16, .batch = 10, .hold_bytes = 1 << 20, .signal_every = 8});
  add(40, 10);
  EXPECT_EQ(queue->post(), 0);
  EXPECT_EQ(counters.work_requests, 16u);
  complete();
  EXPECT_EQ(finished, 16);
  EXPECT_EQ(queue->post(), 0);
  EXPECT_EQ(counters.work_requests, 32u);
}

TEST_F(SendQueueTest, SignalsNowAndThenWhatNobodyWaitsFor) {
  make({.batch = 1, .hold_bytes = 1 << 20, .signal_every = 10});
  add(35, 0, false);
  EXPECT_EQ(queue->post(), 0);
  EXPECT_EQ(signalled(), 3u);
}

TEST_F(SendQueueTest, SignalsALongBatchBeforeTheWireRunsDry) {
  make({.batch = 64, .hold_bytes = 4000});
  add(32, 1000);
  EXPECT_EQ(queue->post(), 0);
  ASSERT_EQ(recorder.doorbells.size(), 1u);
  EXPECT_EQ(signalled(), 2u);
  EXPECT_TRUE(recorder.doorbells[0][27].signalled) << "4000 bytes follow it";
  EXPECT_TRUE(recorder.doorbells[0][31].signalled);
}

TEST_F(SendQueueTest, ReturnsWhatTheDeviceAnswers) {
  make({});
  recorder.refusal = ENOMEM;
  add(1, 10);
  EXPECT_EQ(queue->post(), ENOMEM);
}

TEST_F(SendQueueTest, NamesItselfInTheWorkRequestsIdentity) {
  make({});
  add(1, 10);
  EXPECT_EQ(queue->post(), 0);
  EXPECT_EQ(SendQueue::id_of(recorder.doorbells[0][0].wr_id), 5u);
  EXPECT_FALSE(SendQueue::is_receive(recorder.doorbells[0][0].wr_id));
  EXPECT_EQ(SendQueue::id_of(SendQueue::receive_wr_id(5)), 5u);
  EXPECT_TRUE(SendQueue::is_receive(SendQueue::receive_wr_id(5)));
}

TEST_F(SendQueueTest, KeepsTheOrderOfRequestsHoweverOftenItsRingIsUsedAgain) {
  make({.batch = 7, .signal_every = 7});
  uint32_t appended = 0, next = 0;
  while (appended < 5000) {
    for (int i = 0; i < 7; ++i) {
      Request& r = queue->append();
      r.owner = appended++;
      r.wants_done = true;
      EXPECT_EQ(&queue->last(), &r);
    }
    ASSERT_EQ(queue->post(), 0);
    queue->finish(recorder.doorbells.back().back().wr_id, [&](const Request& r) { EXPECT_EQ(r.owner, next++); });
  }
  EXPECT_EQ(next, appended);
  EXPECT_TRUE(queue->idle());
}

TEST_F(SendQueueTest, TakesAsManyRequestsAsItWasMadeFor) {
  make({.max_posted = 2});
  for (int i = 0; i < 1000; ++i) {
    ASSERT_FALSE(queue->full());
    queue->append();
  }
}

TEST(SendRulesTest, AreSoundOnlyWithTwiceTheSlots) {
  EXPECT_TRUE(sound({.max_posted = 512, .signal_every = 64}, 1024));
  EXPECT_FALSE(sound({.max_posted = 512, .signal_every = 64}, 1023));
  EXPECT_FALSE(sound({.max_posted = 16, .signal_every = 64}, 32));
}

}  // namespace
}  // namespace twohop::verbs
