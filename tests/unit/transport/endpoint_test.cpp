// What every transport must do: whether puts arrive whole and in order, credits come back, and nothing is lost at the
// end, between connected ranks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <time.h>

#include <cstring>
#include <latch>
#include <random>

#include "cluster.hpp"
#include "transport/tcp/tcp_wire.hpp"

namespace twohop::test {
namespace {

using ::testing::HasSubstr;

constexpr size_t kSlotBytes = 48 << 10, kSlots = 8, kInbox = kSlotBytes * kSlots;

/// What put number `number` of a link holds: bytes that depend on the link, the number and the place.
std::byte pattern(const LinkId& id, uint64_t number, size_t i) {
  const uint64_t key = id.channel * 31u + id.tag * 131u + static_cast<unsigned>(id.src) * 1009u +
                       static_cast<unsigned>(id.dst) * 9176u + number * 2654435761u;
  return static_cast<std::byte>((key + i * 40503u) >> 7);
}

/// A put's shape follows from link and number, so that the receiver knows it too. Run 0 ends its slot, run 1 begins it.
std::array<size_t, 2> shape(const LinkId& id, uint64_t number, unsigned seed) {
  std::seed_seq key{seed,
                    unsigned{id.channel},
                    unsigned{id.tag},
                    static_cast<unsigned>(id.src),
                    static_cast<unsigned>(id.dst),
                    static_cast<unsigned>(number)};
  std::mt19937 random(key);
  const size_t limits[] = {0, 1, 100, 4000, kSlotBytes / 2};
  return {random() % (limits[random() % 5] + 1), random() % (limits[random() % 5] + 1)};
}

/// One direction of traffic at its sender: posts up to kSlots puts ahead of the credits.
struct Sender {
  Sender(Rank& r, size_t link_index) : link(link_index) {
    for (auto& slot : slots) slot = r.source(kSlotBytes);
  }
  size_t link;
  std::array<std::span<std::byte>, kSlots> slots;

  bool step(Endpoint& e, uint64_t total, unsigned seed) {
    OutLink& out = e.out(link);
    bool posted = false;
    while (out.posted < total && out.posted - out.consumed < kSlots) {
      const uint64_t number = out.posted;
      const auto [first, second] = shape(out.id, number, seed);
      const std::span<std::byte> data = slots[number % kSlots].first(first + second);
      for (size_t i = 0; i < data.size(); ++i) data[i] = pattern(out.id, number, i);
      const size_t base = (number % kSlots) * kSlotBytes;
      const PutRun runs[] = {{data.data(), base + kSlotBytes - first, first}, {data.data() + first, base, second}};
      e.put(link, {number / 10, number}, std::span(runs, second > 0 ? 2 : 1));
      posted = true;
    }
    return posted;
  }
};

/// Checks every byte of the puts that have arrived, then releases them.
void receive_all_arrived(Endpoint& e, size_t link, unsigned seed) {
  InLink& in = e.in(link);
  while (in.released < in.arrived) {
    const uint64_t number = in.released;
    const auto [first, second] = shape(in.id, number, seed);
    const std::byte* base = in.inbox.data() + (number % kSlots) * kSlotBytes;
    for (size_t i = 0; i < first; ++i)
      ASSERT_EQ(base[kSlotBytes - first + i], pattern(in.id, number, i)) << "put " << number << " byte " << i;
    for (size_t i = 0; i < second; ++i)
      ASSERT_EQ(base[i], pattern(in.id, number, first + i)) << "put " << number << " byte " << first + i;
    e.release(link);
  }
}

/// All ranks send `total` puts on all their links while receiving, then drain.
void exchange(Rank& r, uint64_t total, unsigned seed) {
  Endpoint& e = *r.endpoint;
  std::vector<Sender> senders;
  for (size_t i = 0; i < r.outs; ++i) senders.emplace_back(r, i);
  auto all_done = [&] {
    for (Sender& s : senders) s.step(e, total, seed);
    bool done = true;
    for (size_t i = 0; i < r.ins; ++i) {
      receive_all_arrived(e, i, seed);
      done &= e.in(i).released == total;
    }
    for (size_t i = 0; i < r.outs; ++i) done &= e.out(i).consumed == total;
    auto flushed = e.flush();
    EXPECT_TRUE(flushed) << flushed.error().message;
    return done || ::testing::Test::HasFailure();
  };
  poll_until(e, all_done);
  for (size_t i = 0; i < r.ins; ++i) {
    EXPECT_EQ(e.in(i).tags[(total - 1) / 10 % 4].call, (total - 1) / 10);
    EXPECT_EQ(e.in(i).tags[(total - 1) / 10 % 4].signature, total - 1);
  }
  for (size_t i = 0; i < r.outs; ++i) EXPECT_EQ(e.out(i).sent, total);
  auto drained = e.drain(in_seconds(20));
  EXPECT_TRUE(drained) << drained.error().message;
  r.endpoint.reset();
}

class EndpointTest : public ::testing::TestWithParam<Net> {};

std::vector<Net> nets() {
  auto softnic = [](const char* name, std::function<void(verbs::VerbsConfig&)> tune) {
    return Net{name, std::move(tune)};
  };
  return {
      Net{},
      softnic("softnic", nullptr),
      softnic("softnic_one_rail", [](verbs::VerbsConfig& c) { c.rails.max_rails = 1; }),
      softnic("softnic_every_request_a_doorbell", [](verbs::VerbsConfig& c) { c.rules.batch = 1; }),
      softnic("softnic_held", [](verbs::VerbsConfig& c) { c.rules.hold_bytes = 0; }),
      softnic("softnic_round_robin", [](verbs::VerbsConfig& c) { c.qps_per_connection = 3; }),
      softnic("softnic_split",
              [](verbs::VerbsConfig& c) {
                c.qps_per_connection = 3;
                c.split = true;
              }),
      softnic("softnic_small_queues", [](verbs::VerbsConfig& c) { c.rules.max_posted = 16; }),
  };
}

INSTANTIATE_TEST_SUITE_P(Over, EndpointTest, ::testing::ValuesIn(nets()),
                         [](const ::testing::TestParamInfo<Net>& info) { return info.param.name; });

TEST_P(EndpointTest, DeliversRandomPutsInOrderOverSeveralLinksAndChannels) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  std::vector<LinkPlan> links;
  for (uint16_t channel = 0; channel < 2; ++channel)
    for (uint16_t tag : {0, 5, 65535})
      for (int src = 0; src < 3; ++src)
        for (int dst = 0; dst < 3; ++dst)
          if (src != dst) links.push_back({{channel, tag, src, dst}, kInbox});
  run_cluster(GetParam(), 3, links, [&](Rank& r) { exchange(r, 120, seed); });
}

TEST_P(EndpointTest, WorksWithLinksOfOneDirectionOnly) {
  const std::vector<LinkPlan> ring = {
      {{0, 0, 0, 1}, kInbox}, {{0, 0, 1, 2}, kInbox}, {{0, 0, 2, 3}, kInbox}, {{0, 0, 3, 0}, kInbox}};
  run_cluster(GetParam(), 4, ring, [&](Rank& r) { exchange(r, 50, 1); });
}

TEST_P(EndpointTest, WorksWithoutAnyLink) {
  run_cluster(GetParam(), 2, {}, [](Rank& r) {
    EXPECT_TRUE(r.endpoint->flush());
    auto polled = r.endpoint->poll();
    ASSERT_TRUE(polled);
    EXPECT_FALSE(*polled);
    EXPECT_TRUE(r.endpoint->drain(in_seconds(5)));
  });
}

const std::vector<LinkPlan> kOneLink = {{{0, 3, 0, 1}, 1 << 20}};

TEST_P(EndpointTest, MergesCreditsAndCountsEveryByte) {
  constexpr uint64_t kPuts = 20, kBytes = 1000;
  // Over RDMA the call tag travels once, and credits are immediates.
  const bool framed = GetParam().name == "tcp";
  const uint64_t put_headers = framed ? kPuts * sizeof(tcp::PutFrame) : sizeof(verbs::TagSlot);
  const uint64_t credit_headers = framed ? sizeof(tcp::FrameHeader) : 0;
  std::latch counted(2);  // drain() sends a few bytes more
  run_cluster(GetParam(), 2, kOneLink, [&](Rank& r) {
    Endpoint& e = *r.endpoint;
    if (r.rank == 0) {
      const std::span<std::byte> data = r.source(kBytes);
      const PutRun run{data.data(), 0, kBytes};
      for (uint64_t i = 0; i < kPuts; ++i) e.put(0, {1, 2}, {&run, 1});
      EXPECT_EQ(e.out(0).sent, 0u);  // nothing leaves before flush()
      ASSERT_TRUE(e.flush());
      poll_until(e, [&] { return e.out(0).consumed == kPuts; });
      EXPECT_EQ(e.counters().bytes_sent, kPuts * kBytes + put_headers);
      EXPECT_EQ(e.counters().bytes_received, credit_headers);
      EXPECT_EQ(e.counters().puts, kPuts);
      EXPECT_EQ(e.counters().flushes, 1u);
    } else {
      poll_until(e, [&] { return e.in(0).arrived == kPuts; });
      for (uint64_t i = 0; i < kPuts; ++i) e.release(0);
      ASSERT_TRUE(e.flush());
      EXPECT_EQ(e.counters().credits, 1u);
      EXPECT_EQ(e.counters().bytes_sent, credit_headers);
      EXPECT_EQ(e.counters().bytes_received, kPuts * kBytes + put_headers);
    }
    counted.arrive_and_wait();
    EXPECT_TRUE(e.drain(in_seconds(10)));
  });
}

TEST_P(EndpointTest, NeverBlocksWhileTheReceiverIsNotReading) {
  constexpr uint64_t kPuts = kMaxPutsInFlight;
  constexpr size_t kBytes = 1 << 20;  // 64 MiB in all: more than the kernel buffers
  std::latch stalled(2);
  run_cluster(GetParam(), 2, kOneLink, [&](Rank& r) {
    Endpoint& e = *r.endpoint;
    if (r.rank == 0) {
      const std::span<std::byte> data = r.source(kBytes);
      for (size_t i = 0; i < kBytes; ++i) data[i] = static_cast<std::byte>(i * 31 >> 3);
      const PutRun run{data.data(), 0, kBytes};
      for (uint64_t i = 0; i < kPuts; ++i) e.put(0, {i, i}, {&run, 1});
      ASSERT_TRUE(e.flush());
      for (int quiet = 0; quiet < 3;) {  // until the kernel takes no more
        auto changed = e.poll();
        ASSERT_TRUE(changed);
        std::vector<pollfd> fds;
        e.wait_for(fds);
        quiet = *changed || ::poll(fds.data(), fds.size(), 20) > 0 ? 0 : quiet + 1;
      }
      // RDMA needs nobody to read.
      if (GetParam().name == "tcp") {
        EXPECT_LT(e.out(0).sent, kPuts);
      }
      stalled.count_down();
      poll_until(e, [&] { return e.out(0).consumed == kPuts; });
      EXPECT_EQ(e.out(0).sent, kPuts);
    } else {
      stalled.arrive_and_wait();
      poll_until(e, [&] {
        while (e.in(0).released < e.in(0).arrived) e.release(0);
        EXPECT_TRUE(e.flush());
        return e.in(0).released == kPuts;
      });
      for (size_t i = 0; i < kBytes; ++i) ASSERT_EQ(e.in(0).inbox[i], static_cast<std::byte>(i * 31 >> 3));
    }
    EXPECT_TRUE(e.drain(in_seconds(10)));
  });
}

TEST_P(EndpointTest, DrainLosesNothingWhenOneSideLeavesRightAfterItsLastPut) {
  constexpr uint64_t kPuts = 40;
  constexpr size_t kBytes = 100000;
  for (int round = 0; round < 10; ++round) {
    run_cluster(GetParam(), 2, kOneLink, [&](Rank& r) {
      Endpoint& e = *r.endpoint;
      if (r.rank == 0) {
        const std::span<std::byte> data = r.source(kBytes);
        std::fill(data.begin(), data.end(), std::byte{9});
        const PutRun run{data.data(), 0, kBytes};
        for (uint64_t i = 0; i < kPuts; ++i) e.put(0, {}, {&run, 1});
        auto drained = e.drain(in_seconds(20));
        EXPECT_TRUE(drained) << drained.error().message;
        r.endpoint.reset();
        return;
      }
      poll_until(e, [&] {
        while (e.in(0).released < e.in(0).arrived) e.release(0);
        EXPECT_TRUE(e.flush());
        return e.in(0).released == kPuts;
      });
      for (int i = 0; i < 100; ++i) {  // the peer's leaving is not an error: nothing is needed of it
        auto polled = e.poll();
        ASSERT_TRUE(polled) << polled.error().message;
      }
      auto drained = e.drain(in_seconds(20));
      EXPECT_TRUE(drained) << drained.error().message;
    });
  }
}

TEST_P(EndpointTest, ARankThatLeftEarlyIsNoErrorUntilItIsNeeded) {
  const std::vector<LinkPlan> links = {{{0, 0, 0, 1}, 64}, {{0, 0, 1, 0}, 64}};
  std::latch gone(2);
  run_cluster(GetParam(), 2, links, [&](Rank& r) {
    Endpoint& e = *r.endpoint;
    if (r.rank == 0) {
      EXPECT_TRUE(e.drain(in_seconds(10)));
      r.endpoint.reset();
      gone.count_down();
      return;
    }
    gone.arrive_and_wait();
    std::vector<pollfd> fds;
    e.wait_for(fds);
    EXPECT_EQ(::poll(fds.data(), fds.size(), 5000), 1);  // the goodbye
    ASSERT_TRUE(e.poll());
    EXPECT_EQ(::poll(fds.data(), fds.size(), 0), 0) << "a closed socket must not wake for ever";
    e.put(0, {}, {});
    auto r2 = e.flush();
    ASSERT_FALSE(r2);
    EXPECT_EQ(r2.error().code, twohopInvalidUsage);
    EXPECT_EQ(r2.error().rank, 0);
    EXPECT_THAT(r2.error().message, HasSubstr("closed its connection"));
    auto again = e.poll();  // dead for good, with the same cause
    ASSERT_FALSE(again);
    EXPECT_EQ(again.error().message, r2.error().message);
  });
}

TEST_P(EndpointTest, ADestroyedPeerIsAnErrorThatNamesIt) {
  run_cluster(GetParam(), 2, kOneLink, [&](Rank& r) {
    if (r.rank == 0) {
      r.endpoint.reset();
      return;
    }
    const Error error = poll_until_error(*r.endpoint);
    EXPECT_EQ(error.code, twohopRemoteError);
    EXPECT_EQ(error.rank, 0);
    EXPECT_EQ(error.scope, Scope::kPeer);
    EXPECT_THAT(error.message, HasSubstr("rank 0 (127.0.0.1:"));
  });
}

TEST_P(EndpointTest, DrainGivesUpAtTheDeadlineAndNamesTheLateRank) {
  std::latch late(2);
  run_cluster(GetParam(), 2, kOneLink, [&](Rank& r) {
    if (r.rank == 0) {
      r.endpoint->put(0, {}, {});
      auto drained = r.endpoint->drain(in_seconds(0.1));
      ASSERT_FALSE(drained);
      EXPECT_EQ(drained.error().code, twohopTimeout);
      EXPECT_EQ(drained.error().rank, 1);
      EXPECT_THAT(drained.error().message, HasSubstr("rank 1 has consumed 0 of 1 puts"));
    }
    late.arrive_and_wait();
  });
}

TEST_P(EndpointTest, SleepsWithoutUsingTheProcessor) {
  std::latch done(2);
  run_cluster(GetParam(), 2, kOneLink, [&](Rank& r) {
    if (r.rank == 1) {
      timespec before{}, after{};
      ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before);
      const Deadline until = in_seconds(0.3);
      int wakes = 0;
      while (std::chrono::steady_clock::now() < until) {
        ASSERT_TRUE(r.endpoint->poll());
        std::vector<pollfd> fds;
        r.endpoint->wait_for(fds);
        ::poll(fds.data(), fds.size(), 100);
        ++wakes;
      }
      ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after);
      EXPECT_LT(wakes, 20);
      EXPECT_LT((after.tv_sec - before.tv_sec) * 1e9 + static_cast<double>(after.tv_nsec - before.tv_nsec), 50e6);
    }
    done.arrive_and_wait();
  });
}

TEST(TcpEndpointDeathTest, RefusesMorePutsThanMayBeInFlight) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  auto overrun = [] {
    run_cluster(2, kOneLink, [](Rank& r) {
      if (r.rank == 0)
        for (uint64_t i = 0; i <= kMaxPutsInFlight; ++i) r.endpoint->put(0, {}, {});
    });
  };
  EXPECT_DEATH(overrun(), "posted 64, consumed 0");
}

}  // namespace
}  // namespace twohop::test
