// TWOHOP_CHECK=1: is data that was altered between source and inbox found, and is what carried it named?
#include "transport/checked_endpoint.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <latch>
#include <random>

#include "cluster.hpp"

namespace twohop::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr size_t kInbox = 1 << 20;
const std::vector<LinkPlan> kLinks = {{{3, 1, 0, 1}, kInbox}, {{3, 2, 1, 0}, kInbox}};

Net checked(Net net) {
  net.checked = true;
  return net;
}

std::span<std::byte> random_source(Rank& r, size_t bytes, unsigned seed) {
  std::mt19937 random(seed);
  const std::span<std::byte> data = r.source(bytes);
  for (std::byte& b : data) b = static_cast<std::byte>(random());
  return data;
}

class CheckedEndpointTest : public ::testing::TestWithParam<Net> {};

TEST_P(CheckedEndpointTest, DeliversWhatIsUnharmed) {
  run_cluster(checked(GetParam()), 2, kLinks, [&](Rank& r) {
    Endpoint& e = *r.endpoint;
    for (uint64_t number = 1; number <= 200; ++number) {
      const size_t first = number * 37 % 9000, second = number % 3 == 0 ? 0 : number * 91 % 5000;
      if (r.rank == 0) {
        const auto data = random_source(r, first + second, static_cast<unsigned>(number));
        const PutRun runs[] = {{data.data(), 100, first}, {data.data() + first, kInbox / 2, second}};
        e.put(0, {number, ~number}, {runs, second > 0 ? size_t{2} : size_t{1}});
        ASSERT_TRUE(e.flush());
        ASSERT_TRUE(poll_until(e, [&] { return e.out(0).consumed == number; }));
        r.arena_used = 0;
        continue;
      }
      ASSERT_TRUE(poll_until(e, [&] { return e.in(0).arrived == number; }));
      const CallTag tag = e.in(0).tags[number % 4];
      EXPECT_EQ(tag.call, number);
      EXPECT_EQ(tag.signature, ~number);
      std::mt19937 random(static_cast<unsigned>(number));
      for (size_t i = 0; i < first + second; ++i) {
        const size_t at = i < first ? 100 + i : kInbox / 2 + i - first;
        ASSERT_EQ(e.in(0).inbox[at], static_cast<std::byte>(random())) << number << " " << i;
      }
      e.release(0);
      ASSERT_TRUE(e.flush());
    }
    ASSERT_TRUE(e.drain(in_seconds(20)));
  });
}

/// A source that changes while it is being sent is as bad as a network that alters it.
TEST_P(CheckedEndpointTest, NamesTheBytesThatWereAlteredAndWhoSentThem) {
  std::latch done(2);
  run_cluster(checked(GetParam()), 2, kLinks, [&](Rank& r) {
    Endpoint& e = *r.endpoint;
    if (r.rank == 0) {
      const auto data = random_source(r, 200'000, 1);
      const PutRun runs[] = {{data.data(), 0, 150'000}, {data.data() + 150'000, 500'000, 50'000}};
      e.put(0, {1, 2}, runs);
      data[160'123] ^= std::byte{4};
      ASSERT_TRUE(e.flush());
      (void)e.poll();
    } else {
      const Error error = poll_until_error(e);
      EXPECT_EQ(error.code, twohopRemoteError);
      EXPECT_EQ(error.rank, 0);
      // 200000 bytes are cut into pieces of 8 KiB.
      EXPECT_THAT(error.message, HasSubstr("bytes 155648 to 163839 of put 1 (200000 bytes, channel 3, link tag 1)"));
      EXPECT_THAT(error.message, HasSubstr("rank 0 (127.0.0.1:"));
      EXPECT_EQ(e.in(0).arrived, 0u) << "damaged data must not be read";
    }
    done.arrive_and_wait();
  });
}

INSTANTIATE_TEST_SUITE_P(Nets, CheckedEndpointTest, ::testing::Values(Net{}, Net{"softnic", nullptr}),
                         [](const auto& info) { return info.param.name; });

/// A put cut over the queue pairs of two rails: the second rail damages its part.
TEST(SoftnicCheck, NamesTheRailAndQueuePairThatDamagedAPart) {
  std::latch done(2);
  use_softnic("devices=2,corrupt=dev1:write:1");
  const Net split{"softnic", [](verbs::VerbsConfig& c) { c.split = true; }, true};
  run_cluster(split, 2, {{{0, 0, 0, 1}, kInbox}}, [&](Rank& r) {
    Endpoint& e = *r.endpoint;
    if (r.rank == 0) {
      const auto data = random_source(r, 64 << 10, 1);
      const PutRun run{data.data(), 0, data.size()};
      e.put(0, {1, 2}, {&run, 1});
      ASSERT_TRUE(e.flush());
      (void)e.poll();
    } else {
      const Error error = poll_until_error(e);
      EXPECT_EQ(error.code, twohopRemoteError) << error.message;
      EXPECT_EQ(error.scope, Scope::kRail);
      EXPECT_EQ(error.rail, 1);
      EXPECT_THAT(error.message, AllOf(HasSubstr("queue pair 0x"), HasSubstr("of rail 1 (softnic1:1")));
      EXPECT_THAT(error.message, ::testing::Not(HasSubstr("softnic0:1, ")));
    }
    done.arrive_and_wait();
  });
  use_softnic();
}

TEST(SoftnicCheck, NamesTheRailThatAPutWasIssuedOnAgain) {
  std::latch done(2);
  // Nothing is on device 1 until device 0 has failed. Its fourth write is then the put's bytes; see below.
  use_softnic("devices=2,fail=dev0:qp-send:1:RETRY_EXC_ERR,corrupt=dev1:write:4");
  const Net two{"softnic", [](verbs::VerbsConfig& c) { c.tuning.timeout = 10; }, true};
  run_cluster(two, 2, {{{0, 0, 0, 1}, kInbox}}, [&](Rank& r) {
    Endpoint& e = *r.endpoint;
    if (r.rank == 0) {
      const auto data = random_source(r, 5000, 1);
      const PutRun run{data.data(), 0, data.size()};
      e.put(0, {1, 2}, {&run, 1});
      ASSERT_TRUE(e.flush());
      EXPECT_TRUE(poll_until(e, [&] { return e.out(0).sent == 1; }));
      EXPECT_GT(e.counters().reissued_puts, 0u);
    } else {
      const Error error = poll_until_error(e);
      EXPECT_EQ(error.rail, 1);
      EXPECT_THAT(error.message, AllOf(HasSubstr("of put 1 (5000 bytes"), HasSubstr("of rail 1 (softnic1:1")));
    }
    done.arrive_and_wait();
  });
  use_softnic();
}

/// Whichever of the writes that matter is hit, records included.
TEST(SoftnicCheck, FindsEveryDamagedWrite) {
  for (int nth = 1; nth <= 6; ++nth) {
    SCOPED_TRACE(nth);
    std::latch done(2);
    use_softnic("devices=1,corrupt=dev0:write:" + std::to_string(nth));
    bool found = false;
    run_cluster(checked({"softnic", nullptr}), 2, {{{0, 0, 0, 1}, kInbox}}, [&](Rank& r) {
      Endpoint& e = *r.endpoint;
      const auto data = random_source(r, 5000, 1);
      for (uint64_t put = 1; put <= 3; ++put) {
        const PutRun run{data.data(), 5000 * put, data.size()};
        if (r.rank == 0) e.put(0, {1, 2}, {&run, 1});
      }
      if (r.rank == 0) {
        ASSERT_TRUE(e.flush());
        (void)e.poll();
      } else {
        const Deadline deadline = in_seconds(20);
        while (!found && e.in(0).arrived < 3 && std::chrono::steady_clock::now() < deadline) {
          const auto polled = e.poll();
          if (polled) continue;
          found = true;
          EXPECT_THAT(polled.error().message, HasSubstr("of rail 0 (softnic0:1"));
        }
      }
      done.arrive_and_wait();
    });
    // The first and the third write are the transport's call tags, of which nothing depends: the record's count.
    EXPECT_EQ(found, nth != 1 && nth != 3);
  }
  use_softnic();
}

TEST(CheckPieces, CoverAPutWithAtMost32) {
  for (uint64_t bytes :
       {uint64_t{0}, uint64_t{1}, uint64_t{4096}, uint64_t{131072}, uint64_t{131073}, uint64_t{1} << 40}) {
    const uint64_t piece = check_piece_bytes(bytes);
    EXPECT_EQ(piece % 4096, 0u);
    EXPECT_LE((bytes + piece - 1) / piece, CheckRecord::kMaxPieces) << bytes;
  }
}

}  // namespace
}  // namespace twohop::test
