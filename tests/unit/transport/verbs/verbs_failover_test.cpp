// Does a connection survive the death of a rail at every moment: is nothing lost, doubled, or written late into memory
// that has been used again? On the emulated device, two ranks, every request in turn.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <latch>
#include <random>

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

  /// False at the deadline.
  bool run(const std::function<void()>& at_each_step = nullptr) {
    more_ += puts_;
    const bool all = poll_until(e_, [&] {
      if (at_each_step) at_each_step();
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

Totals stream(const Net& net, uint16_t links, uint64_t puts) {
  Totals totals;
  run_cluster(net, 2, channels(links), [&](Rank& r) {
    Stream s(r, puts);
    EXPECT_TRUE(s.run());
    EXPECT_TRUE(s.run());
    EXPECT_TRUE(r.endpoint->drain(in_seconds(10)));
    totals.by_rank[r.rank] = r.endpoint->counters();
  });
  return totals;
}

class Failover : public WithSettings {
 protected:
  static constexpr uint64_t kPuts = 4;
  void TearDown() override { WithSettings::TearDown(); }
};
using SoftnicFailover = Failover;

TEST_F(SoftnicFailover, ARailThatDiesAtAnyRequestLosesNothing) {
  use("devices=2");
  const uint64_t requests = stream(two_rails(), 2, kPuts).requests() / 2;
  uint64_t failures = 0;
  for (uint64_t n = 1; n <= requests + 2; ++n)
    for (const std::string how : {"RETRY_EXC_ERR", "RETRY_EXC_ERR:done"}) {
      SCOPED_TRACE("request " + std::to_string(n) + " " + how);
      use("devices=2,fail=dev0:qp-send:" + std::to_string(n) + ":" + how);
      failures += stream(two_rails(), 2, kPuts).failures();
      if (HasFailure()) return;
    }
  EXPECT_GE(failures, requests);
}

}  // namespace
}  // namespace twohop::test
