// Where ranks stand when a call hangs: the message, the roll call, and who is named as late.
#include "bootstrap/standing.hpp"

#include <signal.h>
#include <sys/wait.h>

#include "unit/bootstrap/helper_process.hpp"
#include "unit/bootstrap/ranks.hpp"

namespace twohop {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using Standings = std::vector<std::optional<Standing>>;

Standing in_call(uint64_t call, int waits_for) {
  return {.place = Standing::Place::kInCall, .call = call, .waits_for = waits_for, .still_ms = 1500};
}
Standing between(uint64_t call) {
  return {.call = call};
}

TEST(Standing, TravelsUnchanged) {
  const Standing s{.place = Standing::Place::kLeft,
                   .call = 0x123456789abcdef0,
                   .waits_for = 7,
                   .still_ms = 4000000000,
                   .host_calls = 0xfedcba98,
                   .gpu_calls = 3};
  const auto got = decode_standing(encode(5, s));
  ASSERT_TRUE(got);
  EXPECT_EQ(got->first, 5);
  EXPECT_EQ(got->second, s);
}

TEST(Standing, MalformedIsNothing) {
  Bytes good = encode(5, between(1));
  for (size_t bytes = 0; bytes < good.size(); ++bytes) EXPECT_FALSE(decode_standing(std::span(good).first(bytes)));
  good[4] = std::byte{3};  // no such place
  EXPECT_FALSE(decode_standing(good));
  EXPECT_FALSE(decode_standing(encode(-1, between(1))));
}

Standing made(uint32_t host_calls, uint32_t gpu_calls) {
  return {.place = Standing::Place::kInCall, .host_calls = host_calls, .gpu_calls = gpu_calls};
}

TEST(WhoCallsElsewhere, NamesTwoRanksThatCannotBeInTheSameSequence) {
  const auto said = who_calls_elsewhere(Standings{made(3, 5), made(2, 6), made(3, 5)});
  ASSERT_TRUE(said);
  EXPECT_THAT(*said, HasSubstr("rank 0 makes a call on host memory where rank 1 makes one on GPU memory"));
  EXPECT_THAT(*said, HasSubstr("3 and 2 calls on host memory, 5 and 6 on GPU memory"));
  EXPECT_TRUE(who_calls_elsewhere(Standings{made(0, 1), made(0xffffffff, 2)})) << "counts overflow";
}

TEST(WhoCallsElsewhere, IsNobodyWhereOneIsOnlyFurtherThanTheOther) {
  EXPECT_FALSE(who_calls_elsewhere(Standings{made(3, 5), made(3, 6), made(4, 6), std::nullopt, made(1, 0)}));
  EXPECT_FALSE(who_calls_elsewhere(Standings{made(0, 7), made(0xffffffff, 7), made(0xffffffff, 6)}));
  const Standing gone{.place = Standing::Place::kLeft, .host_calls = 9};
  EXPECT_FALSE(who_calls_elsewhere(Standings{gone, made(1, 1)}));
}

TEST(WhoIsLate, NamesThoseThatDoNotAnswerFirst) {
  const Standings s{in_call(9, 1), std::nullopt, between(2), std::nullopt};
  EXPECT_THAT(who_is_late(s, 0, 9), AllOf(HasSubstr("rank(s) 1, 3"), Not(HasSubstr("rank 2"))));
}

TEST(WhoIsLate, NamesTheRankThatHasNotEnteredTheCall) {
  EXPECT_THAT(who_is_late(Standings{in_call(9, 1), in_call(9, 2), between(8)}, 0, 9),
              AllOf(HasSubstr("rank 2 has not entered call 9"), HasSubstr("finished call 8")));
  const Standing gone{.place = Standing::Place::kLeft, .call = 8};
  EXPECT_THAT(who_is_late(Standings{in_call(9, 1), gone}, 0, 9), HasSubstr("rank 1 has destroyed its communicator"));
}

TEST(WhoIsLate, FollowsTheChainToWhoWaitsForNobody) {
  EXPECT_THAT(who_is_late(Standings{in_call(9, 2), in_call(9, -1), in_call(9, 1)}, 0, 9),
              HasSubstr("rank 1 is in call 9"));
  EXPECT_THAT(who_is_late(Standings{in_call(9, 7)}, 0, 9), HasSubstr("rank 0")) << "a rank that does not exist";
}

TEST(WhoIsLate, SaysThatRanksWaitInACircle) {
  EXPECT_THAT(who_is_late(Standings{in_call(9, 1), in_call(9, 2), in_call(9, 1)}, 0, 9), HasSubstr("circle"));
}

TEST(RollCall, BringsTheStandingOfEveryRankToWhoeverAsks) {
  constexpr int kRanks = 22;
  Controls c = join_all(*make_unique_id(loopback_options()), kRanks);
  for (int r = 0; r < kRanks; r++)
    c[static_cast<size_t>(r)]->watch([](const Error&) {},
                                     [r] { return in_call(100 + static_cast<uint64_t>(r), r / 2); });
  run_ranks(kRanks, [&](int asker) {
    const Standings all = c[static_cast<size_t>(asker)]->roll_call(seconds(20));
    ASSERT_EQ(all.size(), size_t{kRanks});
    for (int r = 0; r < kRanks; r++) {
      ASSERT_TRUE(all[static_cast<size_t>(r)]) << asker << " knows nothing of " << r;
      EXPECT_EQ(*all[static_cast<size_t>(r)], in_call(100 + static_cast<uint64_t>(r), r / 2));
    }
  });
}

TEST(RollCall, SaysWhoHasLeft) {
  Controls c = join_all(*make_unique_id(loopback_options()), 3);
  for (auto& control : c) control->watch([](const Error&) {}, [] { return between(4); });
  c[2].reset();
  const Standings all = c[0]->roll_call(seconds(20));
  ASSERT_TRUE(all[1] && all[2]);
  EXPECT_EQ(*all[1], between(4));
  EXPECT_EQ(all[2]->place, Standing::Place::kLeft);
}

TEST(RollCall, KnowsThatAnEndedProcessHasLeft) {
  const auto id = *make_unique_id(loopback_options());
  HelperProcess child(id, 1, 2, "goodbye");
  auto c = Control::join(id, 0, 2, in(seconds(30)));
  ASSERT_TRUE(c) << c.error().message;
  (*c)->watch([](const Error&) {}, [] { return between(4); });
  ASSERT_EQ(child.wait_for_exit(), 0);
  const auto until = in(seconds(20));  // its end may not be seen yet
  for (bool left = false; !left;
       left = (*c)->roll_call(milliseconds(10))[1] == Standing{.place = Standing::Place::kLeft})
    ASSERT_LT(std::chrono::steady_clock::now(), until);
}

TEST(RollCall, LeavesAStoppedProcessOutAndAllBehindIt) {
  const auto id = *make_unique_id(loopback_options());
  HelperProcess child(id, 1, 2);
  auto c = Control::join(id, 0, 2, in(seconds(30)));
  ASSERT_TRUE(c) << c.error().message;
  (*c)->watch([](const Error&) {}, [] { return between(4); });
  ASSERT_TRUE(child.wait_until_joined());
  ::kill(child.pid(), SIGSTOP);
  ASSERT_EQ(waitpid(child.pid(), nullptr, WUNTRACED), child.pid());
  const Standings all = (*c)->roll_call(milliseconds(200));
  EXPECT_TRUE(all[0]);
  EXPECT_FALSE(all[1]);
  ::kill(child.pid(), SIGCONT);
}

}  // namespace
}  // namespace twohop
