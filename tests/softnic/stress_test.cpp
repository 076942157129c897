// Does anything break when many threads use many queue pairs at once, polling and sleeping, with packets lost?
#include <random>
#include <thread>

#include "fabric.hpp"

namespace softnic_test {
namespace {

constexpr int kRequests = 2000;
constexpr size_t kSlotBytes = 4096;
constexpr int kSlots = 16;
constexpr int kWindow = kSlots / 2;

// The bytes of request n of a sender: the receiver can tell.
void fill(uint8_t* at, size_t bytes, uint32_t sender, uint32_t n) {
  for (size_t i = 0; i < bytes; i++) at[i] = static_cast<uint8_t>(sender * 31 + n * 7 + i);
}
bool holds(const uint8_t* at, size_t bytes, uint32_t sender, uint32_t n) {
  for (size_t i = 0; i < bytes; i++)
    if (at[i] != static_cast<uint8_t>(sender * 31 + n * 7 + i)) return false;
  return true;
}

class Worker {
 public:
  Worker(End& end, Address peer, uint32_t number, bool sleeps, uint32_t seed)
      : end_(end), peer_(peer), number_(number), sleeps_(sleeps), random_(seed) {}

  // Sends kRequests to the partner and receives as many; memory's first half is sent from, the second half written by
  // the peer.
  void run() {
    while (!failed && (received_ < kRequests || completed_ < kRequests)) {
      while (sent_ < kRequests && sent_ - completed_ < kSlots && credits()) send();
      if (!drain() && sleeps_) sleep();
      if (Clock::now() > deadline_) failed = true;
    }
  }
  bool failed = false;

 private:
  // Message m says that m - kWindow messages were consumed; with two windows per ring nothing unread is overwritten.
  bool credits() const { return sent_ < received_ + kWindow; }

  void send() {
    auto n = static_cast<uint32_t>(sent_);
    size_t slot = n % kSlots;
    size_t bytes = 1 + random_() % kSlotBytes;
    fill(end_.memory.data() + slot * kSlotBytes, bytes, number_, n);
    auto r = end_.request(IBV_WR_RDMA_WRITE_WITH_IMM, bytes, peer_, n);
    r.sge.addr += slot * kSlotBytes;
    r.wr.wr.rdma.remote_addr += (kSlots + slot) * kSlotBytes;
    r.wr.imm_data = n;
    failed |= end_.post(r) != 0;
    sent_++;
  }

  bool drain() {
    ibv_wc wc[8];
    int found = ibv_poll_cq(end_.cq, 8, wc);
    for (int i = 0; i < found; i++) take(wc[i]);
    if (found == 0) sched_yield();
    return found > 0;
  }

  void take(const ibv_wc& wc) {
    failed |= wc.status != IBV_WC_SUCCESS;
    if (failed) return;
    if (wc.opcode == IBV_WC_RDMA_WRITE) {
      failed |= wc.wr_id != static_cast<uint64_t>(completed_++);
      return;
    }
    failed |= wc.imm_data != static_cast<uint32_t>(received_);
    const uint8_t* at = end_.memory.data() + (kSlots + wc.imm_data % kSlots) * kSlotBytes;
    failed |= !holds(at, wc.byte_len, number_ ^ 1, wc.imm_data);
    received_++;
    end_.receive(0, 0);
  }

  void sleep() {
    ibv_req_notify_cq(end_.cq, 0);
    if (drain() || !readable(end_.channel->fd, 1000)) return;
    ibv_cq* cq = nullptr;
    void* user = nullptr;
    if (ibv_get_cq_event(end_.channel, &cq, &user) == 0) ibv_ack_cq_events(cq, 1);
  }

  End& end_;
  Address peer_;
  uint32_t number_;
  bool sleeps_;
  std::mt19937 random_;
  int sent_ = 0, completed_ = 0, received_ = 0;
  Clock::time_point deadline_ = Clock::now() + std::chrono::seconds(60);
};

void stress(const std::string& words, unsigned pairs) {
  uint32_t seed = std::random_device{}();
  if (const char* given = std::getenv("STRESS_SEED")) seed = static_cast<uint32_t>(std::strtoul(given, nullptr, 10));
  SCOPED_TRACE("STRESS_SEED=" + std::to_string(seed));
  use_settings(words);
  Shape shape;
  shape.sq = shape.rq = 2 * kSlots;
  shape.cq = 8 * kSlots;
  shape.memory = 2 * kSlots * kSlotBytes;
  auto patient = [](ibv_qp_attr& a) { a.timeout = 8, a.retry_cnt = 7, a.rnr_retry = 7; };
  std::vector<std::unique_ptr<Pair>> all;
  std::vector<std::unique_ptr<Worker>> workers;
  for (uint32_t i = 0; i < pairs; i++) {
    shape.device = i % 2;
    Pair& pair = *all.emplace_back(std::make_unique<Pair>(shape, shape, patient));
    for (int n = 0; n < 2 * kSlots; n++) pair.a.receive(0, 0), pair.b.receive(0, 0);
    workers.push_back(std::make_unique<Worker>(pair.a, pair.b.address(), 2 * i, i % 2 == 0, seed + i));
    workers.push_back(std::make_unique<Worker>(pair.b, pair.a.address(), 2 * i + 1, i % 3 == 0, seed + 100 + i));
  }
  std::vector<std::thread> threads;
  for (auto& worker : workers) threads.emplace_back([&worker] { worker->run(); });
  for (std::thread& thread : threads) thread.join();
  for (auto& worker : workers) EXPECT_FALSE(worker->failed);
}

TEST(Stress, ManyThreadsOnAnInstantWire) {
  stress("", 4);
}
TEST(Stress, ManyThreadsOnASlowWireThatLosesPackets) {
  stress("rate=2g,latency=20us,loss=0.5%,doorbell=1us", 4);
}

}  // namespace
}  // namespace softnic_test
