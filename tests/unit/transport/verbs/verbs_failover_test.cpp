// Does a connection survive the death of a rail at every moment: is nothing lost, doubled, or written late into memory
// that has been used again? On the emulated device, two ranks, every request in turn.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <latch>
#include <random>
#include <sstream>

#include "../captured_log.hpp"
#include "two_ranks.hpp"

namespace twohop::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr uint64_t kSlots = 4;  // of a link's inbox, and as many of its source: memory is used again at once
constexpr size_t kBytes = 9000;

/// What the byte at `at` of the put is.
std::byte pattern(const LinkId& id, uint64_t put, size_t at) {
  return static_cast<std::byte>(put * 31 + at * 7 + id.channel * 101 + static_cast<size_t>(id.src) * 57 + at / 256);
}

void fill(const LinkId& id, uint64_t put, std::span<std::byte> bytes) {
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = pattern(id, put, i);
}

size_t count_wrong(const LinkId& id, uint64_t put, std::span<const std::byte> bytes) {
  size_t wrong = 0;
  for (size_t i = 0; i < bytes.size(); ++i) wrong += bytes[i] != pattern(id, put, i);
  return wrong;
}

std::vector<LinkPlan> channels(uint16_t n) {
  std::vector<LinkPlan> links;
  for (uint16_t c = 0; c < n; ++c)
    for (int r : {0, 1}) links.push_back({{c, 0, r, 1 - r}, kSlots * kBytes});
  return links;
}

/// Puts on all links, each checked when it has arrived, in memory that is used again as soon as the counts allow it.
/// Puts have two runs, and every third is empty.
class Stream {
 public:
  Stream(Rank& r, uint64_t puts) : r_(r), e_(*r.endpoint), puts_(puts) {
    for (size_t i = 0; i < r.outs; ++i) source_.push_back(r.source(kSlots * kBytes));
  }
  void send_from(std::span<std::byte> memory) {
    for (size_t i = 0; i < r_.outs; ++i) source_[i] = memory.subspan(i * kSlots * kBytes, kSlots * kBytes);
  }

  /// False at the deadline.
  bool run() {
    more_ += puts_;
    const bool all = poll_until(e_, [&] {
      bool done = true;
      for (size_t i = 0; i < r_.outs; ++i) done &= send(i);
      for (size_t i = 0; i < r_.ins; ++i) done &= receive(i);
      EXPECT_TRUE(e_.flush());
      return done && !e_.output_pending();
    });
    if (!all) ADD_FAILURE() << describe();
    return all;
  }

  std::string describe() const {
    std::string text = "rank " + std::to_string(r_.rank) + ":";
    for (size_t i = 0; i < r_.outs; ++i) {
      const OutLink& l = e_.out(i);
      text += " out " + std::to_string(l.id.channel) + ": posted " + std::to_string(l.posted) + " sent " +
              std::to_string(l.sent) + " consumed " + std::to_string(l.consumed);
    }
    for (size_t i = 0; i < r_.ins; ++i) {
      const InLink& l = e_.in(i);
      text += " in " + std::to_string(l.id.channel) + ": arrived " + std::to_string(l.arrived) + " released " +
              std::to_string(l.released);
    }
    return text + (e_.output_pending() ? " output pending" : "");
  }

 private:
  bool send(size_t i) {
    const OutLink& link = e_.out(i);
    while (link.posted < more_ && link.posted - link.consumed < kSlots && link.posted - link.sent < kSlots) {
      const size_t slot = link.posted % kSlots;
      const std::span<std::byte> at = source_[i].subspan(slot * kBytes, kBytes);
      fill(link.id, link.posted, at);
      const size_t bytes = link.posted % 3 == 2 ? 0 : kBytes, half = bytes / 3;
      const PutRun runs[2] = {{at.data(), slot * kBytes, half}, {at.data() + half, slot * kBytes + half, bytes - half}};
      e_.put(i, {link.posted, 7}, runs);
    }
    return link.sent == more_ && link.consumed == more_;
  }
  bool receive(size_t i) {
    InLink& link = e_.in(i);
    for (; link.released < link.arrived; e_.release(i)) {
      const auto at = link.inbox.subspan(link.released % kSlots * kBytes, link.released % 3 == 2 ? 0 : kBytes);
      EXPECT_EQ(count_wrong(link.id, link.released, at), 0u)
          << "put " << link.released << " channel " << link.id.channel;
      EXPECT_EQ(link.tags[link.released % 4].call, link.released);
    }
    return link.released >= more_;
  }

  Rank& r_;
  Endpoint& e_;
  uint64_t puts_, more_ = 0;
  std::vector<std::span<std::byte>> source_;
};

struct Totals {
  EndpointCounters by_rank[2];
  uint64_t requests() const { return by_rank[0].work_requests + by_rank[1].work_requests; }
  uint64_t failures() const { return by_rank[0].rail_failures + by_rank[1].rail_failures; }
};

Net two_rails(uint64_t probe_ns = 1'000'000'000'000) {
  return {"softnic", [probe_ns](verbs::VerbsConfig& c) {
            c.tuning.timeout = 10;
            c.probe_ns = probe_ns;
          }};
}

/// Two rounds on so many channels.
Totals stream(const Net& net, uint16_t links, uint64_t puts) {
  Totals totals;
  run_cluster(net, 2, channels(links), [&](Rank& r) {
    Stream s(r, puts);
    EXPECT_TRUE(s.run());
    EXPECT_TRUE(s.run());
    const auto drained = r.endpoint->drain(in_seconds(10));
    EXPECT_TRUE(drained) << drained.error().message;
    totals.by_rank[r.rank] = r.endpoint->counters();
  });
  return totals;
}

/// Takes a rail's port down for everybody, or up again.
void set_port(Endpoint& e, size_t rail, int up) {
  void* library = ::dlopen(verbs::find_softnic()->c_str(), RTLD_NOW | RTLD_NOLOAD);
  ASSERT_NE(library, nullptr);
  auto set = reinterpret_cast<void (*)(ibv_context*, int)>(::dlsym(library, "softnic_set_port"));
  ASSERT_NE(set, nullptr);
  set(dynamic_cast<verbs::VerbsEndpoint&>(e).rails()[rail].context->get(), up);
  ::dlclose(library);
}

size_t times(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

/// What the warnings are of, in their order.
std::vector<std::string> warnings(const std::string& text) {
  std::vector<std::string> found;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.find(" WARN ") == std::string::npos) continue;
    found.push_back(line);
    for (const char* known : {"is given up", "rail softnic0:1 works again"})
      if (line.find(known) != std::string::npos) found.back() = known;
  }
  return found;
}

constexpr uint64_t kPuts = 4;

class SoftnicFailover : public WithSettings {
 protected:
  /// The stream with a fault at each of its requests on device 0: with the request carried out, and without.
  void die_at_every_request(const Net& net, uint16_t links, uint64_t step = 1) {
    use("devices=2");
    const Totals whole = stream(net, links, kPuts);
    const uint64_t requests = whole.requests() / 2;
    EXPECT_EQ(whole.failures(), 0u);
    uint64_t failures = 0, runs = 0;
    for (uint64_t n = 1; n <= requests && !HasFailure(); n += step)
      for (const std::string how : {"RETRY_EXC_ERR", "RETRY_EXC_ERR:done"}) {
        SCOPED_TRACE("request " + std::to_string(n) + " " + how);
        use("devices=2,fail=dev0:qp-send:" + std::to_string(n) + ":" + how);
        failures += stream(net, links, kPuts).failures();
        ++runs;
      }
    EXPECT_GE(failures, runs / 2);  // how many requests there are depends on how credits fall together
  }
};

TEST_F(SoftnicFailover, ARailThatDiesAtAnyRequestLosesNothing) {
  die_at_every_request(two_rails(), 2);
}

TEST_F(SoftnicFailover, NorDoPutsThatAreCutOverQueuePairsOfBothRails) {
  Net net = two_rails();
  net.tune = [tune = net.tune](verbs::VerbsConfig& c) {
    tune(c);
    c.split = true;
    c.qps_per_connection = 2;
  };
  die_at_every_request(net, 1, 2);
}

TEST_F(SoftnicFailover, NorDoPutsThatTakeTurnsOnTheQueuePairs) {
  die_at_every_request(two_rails(), 1, 2);
}

TEST_F(SoftnicFailover, SeveralRailsMayDieInAnyOrder) {
  const auto seed = static_cast<unsigned>(std::random_device()());
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 rng(seed);
  const char* statuses[] = {"RETRY_EXC_ERR", "RETRY_EXC_ERR:done", "REM_OP_ERR", "GENERAL_ERR", "REM_INV_REQ_ERR:done"};
  uint64_t failures = 0;
  for (int i = 0; i < 25 && !HasFailure(); ++i) {
    std::string words = "devices=3";
    for (const char* device : {"dev0", "dev1"})
      words +=
          std::string(",fail=") + device + ":qp-send:" + std::to_string(1 + rng() % 40) + ":" + statuses[rng() % 5];
    SCOPED_TRACE(words);
    use(words);
    failures += stream(two_rails(), 3, kPuts).failures();
  }
  EXPECT_GT(failures, 25u);
}

TEST_F(SoftnicFailover, APortThatGoesDownIsLeftAtOnceAndUsedAgainWhenItIsBack) {
  use("devices=2");
  const CapturedLog log;
  Net net = two_rails(1'000'000);
  net.tune = [tune = net.tune](verbs::VerbsConfig& c) {
    tune(c);
    c.tuning.timeout = 22;  // 137 s in all: not waited for
  };
  std::latch first(2), second(2), third(2);
  run_cluster(net, 2, channels(2), [&](Rank& r) {
    Endpoint& e = *r.endpoint;
    Stream s(r, kPuts);
    EXPECT_TRUE(s.run());
    first.arrive_and_wait();
    if (r.rank == 0) set_port(e, 0, 0);
    EXPECT_TRUE(s.run());
    EXPECT_TRUE(poll_until(e, [&] { return e.counters().rail_failures == 1; }));
    EXPECT_TRUE(s.run());
    second.arrive_and_wait();
    if (r.rank == 0) set_port(e, 0, -1);
    EXPECT_TRUE(poll_until(e, [&] { return e.counters().rail_returns == 1; }));
    third.arrive_and_wait();
    const uint64_t before = e.counters().rail_bytes[0];
    EXPECT_TRUE(s.run());
    EXPECT_GT(e.counters().rail_bytes[0], before);
    EXPECT_TRUE(e.drain(in_seconds(10)));
  });
  // Each rank says it, and one of them for the process.
  EXPECT_EQ(times(log.text(), "rail 0 (softnic0:1) is given up"), 2u);
  EXPECT_EQ(times(log.text(), "rail softnic0:1 works again"), 2u);
  EXPECT_EQ(warnings(log.text()), (std::vector<std::string>{"is given up", "rail softnic0:1 works again"}))
      << log.text();
  EXPECT_THAT(log.text(), AllOf(HasSubstr("the port went down"), HasSubstr("carries nothing until it works again"),
                                HasSubstr("rail 1 is softnic1:1 (RoCE, MTU 4096): channel 0 with rank 1"),
                                HasSubstr("goes on over softnic0:1")));
}

TEST_F(SoftnicFailover, ARailThatAnswersAgainIsFoundByTrying) {
  use("devices=2,fail=dev0:qp-send:3:RETRY_EXC_ERR");
  run_cluster(two_rails(1'000'000), 2, channels(2), [&](Rank& r) {
    Endpoint& e = *r.endpoint;
    Stream s(r, kPuts);
    EXPECT_TRUE(s.run());
    EXPECT_TRUE(poll_until(e, [&] { return e.counters().rail_returns == 1; }));
    EXPECT_TRUE(s.run());
    EXPECT_TRUE(e.drain(in_seconds(10)));
  });
}

TEST_F(SoftnicFailover, ARailOfAnotherRankOfTheNodeTakesOver) {
  use("devices=2,fail=dev0:qp-send:6:RETRY_EXC_ERR");
  Net net = two_rails();
  net.tune = [tune = net.tune](verbs::VerbsConfig& c) {
    tune(c);
    c.rails.plan = {{"softnic0", 1, 0, true}, {"softnic1", 1, 1, false}};
  };
  const CapturedLog log;
  const Totals totals = stream(net, 2, kPuts);
  EXPECT_EQ(totals.failures(), 1u);
  EXPECT_GT(totals.by_rank[0].rail_bytes[1], 0u);
  EXPECT_GT(totals.by_rank[1].rail_bytes[1], 0u);
  EXPECT_EQ(times(log.text(), "WARN"), 1u) << log.text();
}

TEST_F(SoftnicFailover, ARailThatCannotBeUsedIsPassedOver) {
  for (const std::string refusal : {"create_qp:7:ENOMEM", "create_cq:7:ENOMEM", "to_init:7:EINVAL", "to_rtr:7:ENODEV",
                                    "to_rts:7:EINVAL", "create_qp:8:ENOMEM", "to_rtr:8:ENODEV", "to_rts:8:EINVAL"}) {
    SCOPED_TRACE(refusal);
    use("devices=3,fail=dev0:qp-send:4:RETRY_EXC_ERR,refuse=" + refusal);
    EXPECT_GE(stream(two_rails(), 3, kPuts).failures(), 1u);
  }
}

TEST_F(SoftnicFailover, WithoutAnotherRailTheConnectionEndsAtBothEnds) {
  use("devices=2");
  std::latch up(2), done(2);
  run_cluster(two_rails(), 2, channels(2), [&](Rank& r) {
    Endpoint& e = *r.endpoint;
    Stream s(r, kPuts);
    EXPECT_TRUE(s.run());
    up.arrive_and_wait();
    if (r.rank == 0)
      for (size_t rail : {0, 1}) set_port(e, rail, 0);
    const std::span<std::byte> bytes = r.source(64);
    const PutRun run{bytes.data(), 0, 64};
    for (size_t i = 0; i < r.outs; ++i) e.put(i, {99, 7}, {&run, 1});
    const Result<> flushed = e.flush();
    const Error error = flushed ? poll_until_error(e, 10) : flushed.error();
    EXPECT_EQ(error.code, twohopRemoteError);  // also at the rank whose puts had all arrived before
    EXPECT_EQ(error.rank, 1 - r.rank);
    EXPECT_THAT(error.message, HasSubstr("the port went down"));
    done.arrive_and_wait();
    if (r.rank == 0)
      for (size_t rail : {0, 1}) set_port(e, rail, -1);
  });
}

TEST_F(SoftnicFailover, WhatCameByAQueuePairIsNotLaidAtTheDoorOfItsSuccessor) {
  use("devices=2");
  std::latch first(2), moved(2), second(2);
  run_cluster(two_rails(), 2, {{{0, 0, 0, 1}, kSlots * kBytes}}, [&](Rank& r) {
    Endpoint& e = *r.endpoint;
    const auto put_one = [&](uint64_t slot) {
      const std::span<std::byte> bytes = r.source(kBytes);
      const PutRun run{bytes.data(), slot * kBytes, kBytes};
      e.put(0, {1, 7}, {&run, 1});
      EXPECT_TRUE(e.flush());
      EXPECT_TRUE(poll_until(e, [&] { return e.out(0).sent == slot + 1; }));
    };
    const auto carrier = [&](uint64_t put) { return e.carrier_of(0, put, kBytes, 0, kBytes); };
    if (r.rank == 0) put_one(0);
    std::string before;
    if (r.rank == 1) {
      EXPECT_TRUE(poll_until(e, [&] { return e.in(0).arrived == 1; }));
      before = carrier(1).name;
      EXPECT_THAT(before, HasSubstr("of rail 0 (softnic0:1"));
    }
    first.arrive_and_wait();
    if (r.rank == 0) set_port(e, 0, 0);
    EXPECT_TRUE(poll_until(e, [&] { return e.counters().rail_failures == 1; }));
    moved.arrive_and_wait();
    if (r.rank == 0) put_one(1);
    if (r.rank == 1) {
      EXPECT_TRUE(poll_until(e, [&] { return e.in(0).arrived == 2; }));
      EXPECT_EQ(carrier(1).name, before);
      EXPECT_EQ(carrier(1).rail, 0);
      EXPECT_THAT(carrier(2).name, HasSubstr("of rail 1 (softnic1:1"));
      EXPECT_EQ(carrier(2).rail, 1);
      for (int i = 0; i < 2; ++i) e.release(0);
      EXPECT_TRUE(e.flush());
    }
    EXPECT_TRUE(e.drain(in_seconds(10)));
    second.arrive_and_wait();
    if (r.rank == 0) set_port(e, 0, -1);
  });
}

TEST_F(SoftnicFailover, MemoryOfTheUserGoesOverTheOtherRailToo) {
  for (int n = 1; n < 30; n += 4) {
    use("devices=2,fail=dev0:qp-send:" + std::to_string(n) + ":RETRY_EXC_ERR");
    std::vector<std::byte> memory[2];
    run_cluster(two_rails(), 2, channels(2), [&](Rank& r) {
      Endpoint& e = *r.endpoint;
      memory[r.rank].resize(2 * kSlots * kBytes);
      ASSERT_TRUE(e.register_user_memory(memory[r.rank]));
      Stream s(r, kPuts);
      s.send_from(memory[r.rank]);
      EXPECT_TRUE(s.run());
      EXPECT_TRUE(s.run());
      e.deregister_user_memory(memory[r.rank]);
      EXPECT_TRUE(e.drain(in_seconds(10)));
    });
  }
}

TEST_F(SoftnicFailover, ASlowRailIsNotADeadOne) {
  use("devices=2,rate=1m,latency=5ms");
  const Totals totals = stream(two_rails(), 2, kPuts);
  EXPECT_EQ(totals.failures(), 0u);
  EXPECT_EQ(totals.by_rank[0].reissued_puts + totals.by_rank[1].reissued_puts, 0u);
}

}  // namespace
}  // namespace twohop::test
