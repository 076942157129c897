// Do the calls of one communicator take turns as issued, and is whoever sleeps for his turn woken?
#include "api/tickets.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace twohop {
namespace {

TEST(Tickets, AreServedInTheOrderOfTheirIssue) {
  Tickets tickets;
  std::vector<uint32_t> order;  // guarded by the turns
  std::vector<std::thread> holders;
  std::vector<uint32_t> drawn;
  for (int i = 0; i < 16; ++i) drawn.push_back(tickets.take());
  for (auto ticket = drawn.rbegin(); ticket != drawn.rend(); ++ticket)
    holders.emplace_back([&, mine = *ticket] {
      tickets.wait_for(mine);
      order.push_back(mine);
      tickets.done(mine);
    });
  for (auto& holder : holders) holder.join();
  EXPECT_EQ(order, drawn);
  EXPECT_TRUE(tickets.idle());
}

/// A stream's thread and the thread that issues, in turn; a wake-up that is lost would hold both for ever.
TEST(Tickets, PassTheirTurnFromThreadToThread) {
  constexpr int kRounds = 20'000;
  Tickets tickets;
  std::atomic<int> issued{0};
  std::thread stream([&] {
    for (int i = 0; i < kRounds; ++i) {
      for (int now = issued.load(); now <= i; now = issued.load()) issued.wait(now);
      const auto ticket = static_cast<uint32_t>(2 * i);
      tickets.wait_for(ticket);
      tickets.done(ticket);
    }
  });
  for (int i = 0; i < kRounds; ++i) {
    EXPECT_EQ(tickets.take(), static_cast<uint32_t>(2 * i));
    issued.store(i + 1);
    issued.notify_one();
    Turn mine(tickets);
  }
  stream.join();
  EXPECT_TRUE(tickets.idle());
}

/// After an abort another thread may destroy the communicator while a call still holds its turn.
TEST(Tickets, OfAnotherThreadComeAfterATurnThatIsHeld) {
  Tickets tickets;
  std::atomic<bool> drawn{false}, came{false};
  std::thread destroyer;
  {
    Turn held(tickets);
    destroyer = std::thread([&] {
      const uint32_t ticket = tickets.take();
      drawn = true;
      drawn.notify_one();
      tickets.wait_for(ticket);
      came = true;
      tickets.done(ticket);
    });
    drawn.wait(false);
    EXPECT_FALSE(came);
  }
  destroyer.join();
  EXPECT_TRUE(came);
}

}  // namespace
}  // namespace twohop
