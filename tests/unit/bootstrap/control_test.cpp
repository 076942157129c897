// What the control tree carries: exchanges, failures and goodbyes.
#include "bootstrap/control.hpp"

#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <atomic>

#include "bootstrap/rendezvous.hpp"
#include "unit/bootstrap/helper_process.hpp"
#include "unit/bootstrap/ranks.hpp"

namespace twohop {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

twohopUniqueId new_id() {
  return *make_unique_id(loopback_options());
}

Bytes contribution(int rank, int round) {
  return Bytes(static_cast<size_t>((rank * 37 + round * 101) % 400), static_cast<std::byte>(rank + round));
}

class ControlSizes : public testing::TestWithParam<int> {};

TEST_P(ControlSizes, AllGatherDeliversEveryRanksBytesByRank) {
  const int n = GetParam();
  const twohopUniqueId id = new_id();
  run_ranks(n, [&](int r) {
    auto c = Control::join(id, r, n, in(seconds(30)));
    ASSERT_TRUE(c) << c.error().message;
    for (int round = 0; round < 5; round++) {
      auto all = (*c)->all_gather(contribution(r, round), in(seconds(30)));
      ASSERT_TRUE(all) << all.error().message;
      for (int from = 0; from < n; from++) EXPECT_EQ((*all)[from], contribution(from, round));
    }
  });
}
INSTANTIATE_TEST_SUITE_P(Trees, ControlSizes, testing::Values(1, 2, 3, 5, 6, 21, 22, 40));

TEST(Control, AllGatherTakes64KiBOfEachRank) {
  const twohopUniqueId id = new_id();
  run_ranks(13, [&](int r) {
    auto c = Control::join(id, r, 13, in(seconds(30)));
    const Bytes most(64 << 10, static_cast<std::byte>(r)), more(most.size() + 1);
    EXPECT_FALSE((*c)->all_gather(more, in(seconds(1)))) << "refused before anything is sent";
    auto all = (*c)->all_gather(most, in(seconds(30)));
    ASSERT_TRUE(all) << all.error().message;
    for (int from = 0; from < 13; from++) EXPECT_EQ((*all)[from], Bytes(64 << 10, static_cast<std::byte>(from)));
  });
}

TEST(Control, AllGatherNamesWhoIsLate) {
  const Controls c = join_all(new_id(), 3);
  auto late = c[0]->all_gather({}, in(milliseconds(50)));
  EXPECT_EQ(late.error().code, twohopTimeout);
  EXPECT_THAT(late.error().message, HasSubstr("1, 2"));
}

TEST(Control, AllGatherEndsWhenARankLeavesDuringSetUp) {
  Controls c = join_all(new_id(), 7);
  run_ranks(7, [&](int r) {
    if (r == 6) return c[6].reset();
    auto all = c[r]->all_gather({}, in(seconds(20)));
    ASSERT_FALSE(all);
    EXPECT_EQ(all.error().rank, 6) << all.error().message;
  });
}

TEST(Control, AnExchangeThatOneRankGivesUpIsTheSameErrorForAll) {
  const Controls c = join_all(new_id(), 3);
  run_ranks(2, [&](int r) {  // rank 2 does not take part
    const auto all = c[r]->all_gather({}, in(r == 0 ? milliseconds(50) : milliseconds(20'000)));
    ASSERT_FALSE(all);
    EXPECT_EQ(all.error().code, twohopTimeout);
    EXPECT_THAT(all.error().message, HasSubstr("waiting for rank(s)")) << "rank " << r;
  });
}

TEST(Control, AParentWhoseChildDoesNotComeTellsThoseThatCame) {
  const twohopUniqueId id = new_id();
  run_ranks(3, [&](int r) {
    if (r == 2) {  // is introduced, and ends
      const auto in_time = introduce(*decode(id), 2, 3, "lo", in(seconds(20)));
      EXPECT_TRUE(in_time) << in_time.error().message;
      return;
    }
    const auto joined = Control::join(id, r, 3, in(r == 0 ? milliseconds(1500) : milliseconds(20'000)));
    ASSERT_FALSE(joined);
    EXPECT_EQ(joined.error().code, twohopTimeout) << joined.error().message;
    EXPECT_THAT(joined.error().message, HasSubstr("rank(s) 2 did not connect")) << "rank " << r;
  });
}

TEST(Control, AnAnnouncementReachesEveryOtherRankOnce) {
  for (int origin : {0, 1, 7, 21}) {
    Controls c = join_all(new_id(), 22);
    Failures others, own;
    for (int r = 0; r < 22; r++) c[r]->watch(r == origin ? own.handler() : others.handler());
    Error e = make_error(twohopInvalidUsage, "counts differ");
    c[origin]->announce(e);
    c[origin]->announce(make_error(twohopAborted, "too late"));
    ASSERT_TRUE(others.wait_for(21, seconds(10)));
    c.clear();
    EXPECT_EQ(others.seen().size(), 21u);
    EXPECT_EQ(own.seen().size(), 0u);
    for (const Error& seen : others.seen()) {
      EXPECT_EQ(seen.code, twohopInvalidUsage);
      EXPECT_EQ(seen.rank, origin);
      EXPECT_THAT(seen.message, HasSubstr("counts differ"));
      EXPECT_EQ(seen.scope, Scope::kCommunicator);
    }
  }
}

TEST(Control, AnAnnouncementBeforeWatchEndsOthersAllGather) {
  Controls c = join_all(new_id(), 6);
  c[5]->announce(make_error(twohopSystemError, "out of memory"));
  run_ranks(5, [&](int r) {
    auto all = c[r]->all_gather({}, in(seconds(10)));
    ASSERT_FALSE(all);
    EXPECT_EQ(all.error().rank, 5);
    EXPECT_THAT(all.error().message, HasSubstr("out of memory"));
  });
}

bool rings(const Control::Alarm& alarm, milliseconds within) {
  return static_cast<bool>(wait_for_fd(alarm.fd(), POLLIN, in(within)));
}

TEST(ControlAlarm, RingsWhenARankAnnouncesAFailure) {
  Controls c = join_all(new_id(), 7);
  auto alarm = c[6]->set_alarm();
  ASSERT_TRUE(alarm) << alarm.error().message;
  EXPECT_FALSE(rings(**alarm, milliseconds(0)));
  EXPECT_FALSE((*alarm)->cause());
  auto relay = c[1]->set_alarm();  // the announcement comes by rank 1 and rank 0
  auto root = c[0]->set_alarm();
  c[5]->announce(make_error(twohopSystemError, "out of memory"));
  ASSERT_TRUE(rings(**alarm, seconds(10)));
  ASSERT_TRUE((*alarm)->cause());
  EXPECT_THAT((*alarm)->cause()->message, HasSubstr("out of memory"));
  alarm->reset();
  EXPECT_EQ(c[6]->all_gather({}, in(seconds(10))).error().code, twohopSystemError);
}

TEST(ControlAlarm, RingsWhenARankLeaves) {
  for (bool before : {true, false}) {
    Controls c = join_all(new_id(), 2);
    if (before) c[1].reset();
    auto alarm = c[0]->set_alarm();
    ASSERT_TRUE(alarm);
    c[1].reset();
    ASSERT_TRUE(rings(**alarm, seconds(10)));
    EXPECT_EQ((*alarm)->cause()->rank, 1);
  }
}

/// What one rank says wherever it stands in the tree, all hear that wait, and exchanges go on as if nothing had been
/// said.
TEST(ControlAlarm, RingsWhenARankGivesUpAndTheNextExchangeIsNoneTheWorse) {
  constexpr int kRanks = 7;
  Controls c = join_all(new_id(), kRanks);
  run_ranks(kRanks, [&](int r) {
    for (int round = 0; round < 12; ++round) {
      const int gives_up = round % 3 == 2 ? -1 : round % kRanks;  // nobody in some rounds
      auto alarm = c[r]->set_alarm();
      ASSERT_TRUE(alarm);
      if (gives_up < 0) {
        EXPECT_FALSE((*alarm)->cause()) << (*alarm)->cause()->message;
      } else if (r == gives_up) {
        c[r]->give_up(make_error(twohopSystemError, "no luck in round {}", round));
      } else {
        ASSERT_TRUE(rings(**alarm, seconds(20)));
        ASSERT_TRUE((*alarm)->cause());
        EXPECT_THAT((*alarm)->cause()->message, HasSubstr("no luck in round " + std::to_string(round)));
        EXPECT_EQ((*alarm)->cause()->rank, gives_up);
      }
      alarm->reset();
      auto all = c[r]->all_gather(contribution(r, round), in(seconds(30)));
      ASSERT_TRUE(all) << all.error().message;
      for (int from = 0; from < kRanks; from++) EXPECT_EQ((*all)[from], contribution(from, round));
    }
  });
}

TEST(ControlAlarm, RingsOnceWhereAllGiveUpAtTheSameTime) {
  Controls c = join_all(new_id(), 7);
  run_ranks(7, [&](int r) {
    for (int round = 0; round < 10; ++round) {
      c[r]->give_up(make_error(twohopSystemError, "rank {} in round {}", r, round));
      auto alarm = c[r]->set_alarm();
      ASSERT_TRUE(rings(**alarm, seconds(20)));
      EXPECT_THAT((*alarm)->cause()->message, HasSubstr("in round " + std::to_string(round)));
      alarm->reset();
      ASSERT_TRUE(c[r]->all_gather({}, in(seconds(30))));
    }
  });
}

TEST(ControlAlarm, KeepsWhatComesForTheNextExchange) {
  Controls c = join_all(new_id(), 3);
  run_ranks(3, [&](int r) {
    for (int round = 0; round < 20; ++round) {
      auto alarm = c[r]->set_alarm();
      ASSERT_TRUE(alarm);
      if (r == round % 3) (void)rings(**alarm, milliseconds(3));  // the others are already there
      alarm->reset();
      auto all = c[r]->all_gather(contribution(r, round), in(seconds(30)));
      ASSERT_TRUE(all) << all.error().message;
      for (int from = 0; from < 3; from++) EXPECT_EQ((*all)[from], contribution(from, round));
    }
  });
}

TEST(Control, AnEndlessMessageIsCut) {
  Controls c = join_all(new_id(), 2);
  Failures f;
  c[0]->watch(f.handler());
  c[1]->announce(make_error(twohopSystemError, "{}", std::string(1 << 20, 'x')));
  ASSERT_TRUE(f.wait_for(1, seconds(10)));
  EXPECT_LE(f.seen()[0].message.size(), 1024u);
}

TEST(Control, GoodbyesInAnyOrderAreNoFailure) {
  for (int first : {0, 1, 5}) {
    Controls c = join_all(new_id(), 8);
    Failures f;
    for (auto& one : c) one->watch(f.handler());
    for (int i = 0; i < 8; i++) {
      c[(first + i * 3) % 8].reset();
      EXPECT_FALSE(f.wait_for(1, milliseconds(5))) << f.seen()[0].message;
    }
  }
}

TEST(Control, NoticesStillCrossARankThatSaidGoodbye) {
  Controls c = join_all(new_id(), 7);
  Failures f;
  for (auto& one : c) one->watch(f.handler());
  c[1].reset();  // between ranks 5, 6 and the rest
  c[0].reset();
  c[5]->announce(make_error(twohopInternalError, "after they left"));
  ASSERT_TRUE(f.wait_for(4, seconds(10))) << "ranks 2, 3, 4, 6";
}

TEST(Control, TheHandlerMayAnnounceAndDestroy) {
  Controls c = join_all(new_id(), 3);
  std::atomic<bool> destroyed{false};
  c[1]->watch([&](const Error& e) {
    c[1]->announce(e);
    c[1].reset();
    destroyed = true;
  });
  Failures f;
  c[2]->watch(f.handler());
  c[0]->announce(make_error(twohopAborted, "abort"));
  ASSERT_TRUE(f.wait_for(1, seconds(10)));
  const Deadline limit = in(seconds(10));
  while (!destroyed && std::chrono::steady_clock::now() < limit) std::this_thread::yield();
  EXPECT_TRUE(destroyed);
}

TEST(Control, TheHandlerDoesNotRunAfterDestruction) {
  for (int i = 0; i < 50; i++) {
    Controls c = join_all(new_id(), 2);
    auto alive = std::make_unique<int>(7);
    c[0]->watch([p = alive.get()](const Error&) { EXPECT_EQ(*p, 7); });
    std::thread announcer([&] { c[1]->announce(make_error(twohopAborted, "abort")); });
    c[0].reset();
    alive.reset();  // address sanitizer sees a late handler
    announcer.join();
  }
}

TEST(Control, AnIdleWatcherUsesNoCpu) {
  Controls c = join_all(new_id(), 6);
  Failures f;
  for (auto& one : c) one->watch(f.handler());
  rusage before{}, after{};
  getrusage(RUSAGE_SELF, &before);
  EXPECT_FALSE(f.wait_for(1, milliseconds(500)));
  getrusage(RUSAGE_SELF, &after);
  const auto us = [](const rusage& u) {
    return (u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1'000'000 + u.ru_utime.tv_usec + u.ru_stime.tv_usec;
  };
  EXPECT_LT(us(after) - us(before), 100'000) << "us of half a second";
}

// ---- Ranks that are killed ---------------------------------------------------------------------------------------

/// How soon is asked of whole jobs, in tests that run alone. Here: that it is not keepalive that notices, after 8 s.
constexpr seconds kBeforeKeepalive{5};

class KilledRank : public testing::TestWithParam<int> {};

TEST_P(KilledRank, IsNoticedByAll) {
  const int victim = GetParam(), n = 12;
  const twohopUniqueId id = new_id();
  HelperProcess child(id, victim, n);
  Controls c(n);
  Failures f;
  run_ranks(n, [&](int r) {
    if (r == victim) return;
    auto joined = Control::join(id, r, n, in(seconds(30)));
    ASSERT_TRUE(joined) << joined.error().message;
    c[r] = std::move(*joined);
    c[r]->watch(f.handler());
  });
  ASSERT_TRUE(child.wait_until_joined());
  child.kill();
  ASSERT_TRUE(f.wait_for(n - 1, kBeforeKeepalive));
  for (const Error& e : f.seen()) {
    EXPECT_EQ(e.code, twohopRemoteError);
    EXPECT_EQ(e.rank, victim);
    EXPECT_THAT(e.message, HasSubstr(fmt::format("rank {} (", victim)));
    EXPECT_THAT(e.message, HasSubstr(fmt::format(":{}) was lost", child.pid())));
  }
}
INSTANTIATE_TEST_SUITE_P(RootInnerLeaf, KilledRank, testing::Values(0, 1, 2, 11));

TEST(KilledProcess, IsNoticedAlthoughAChildOfItLivesOn) {
  const twohopUniqueId id = new_id();
  HelperProcess child(id, 1, 2, "fork");
  auto c = Control::join(id, 0, 2, in(seconds(30)));
  ASSERT_TRUE(c);
  Failures f;
  (*c)->watch(f.handler());
  ASSERT_TRUE(child.wait_until_joined());
  child.kill();
  EXPECT_TRUE(f.wait_for(1, kBeforeKeepalive));
}

TEST(EndedProcess, AfterAGoodbyeIsNoFailure) {
  const twohopUniqueId id = new_id();
  HelperProcess child(id, 1, 7, "goodbye");  // an inner rank
  Controls c(7);
  Failures f;
  run_ranks(7, [&](int r) {
    if (r == 1) return;
    c[r] = std::move(*Control::join(id, r, 7, in(seconds(30))));
    c[r]->watch(f.handler());
  });
  EXPECT_EQ(child.wait_for_exit(), 0);
  EXPECT_FALSE(f.wait_for(1, milliseconds(100))) << f.seen()[0].message;
}

TEST(EndedProcess, LeavesAtOnceAlthoughItsRootServiceStillWaits) {
  HelperProcess child(twohopUniqueId{}, 0, 0, "root");
  EXPECT_EQ(child.wait_for_exit(), 0);
}

}  // namespace
}  // namespace twohop
