#include "topology/balance.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <random>

namespace twohop::topology {
namespace {

std::vector<Choice> all_of(int ports) {
  std::vector<Choice> c;
  for (int p = 0; p < ports; ++p) c.push_back({p, 0});
  return c;
}

Spread tie(int takers, int ports) {
  Spread s;
  s.choices.assign(static_cast<size_t>(takers), all_of(ports));
  s.load.assign(static_cast<size_t>(ports), 0);
  for (int p = 0; p < ports; ++p) s.card.push_back(p);
  return s;
}

TEST(Balance, KeepsTheOrderInATie) {
  EXPECT_EQ(spread(tie(4, 4)), (std::vector<int>{0, 1, 2, 3}));
  EXPECT_EQ(spread(tie(4, 2)), (std::vector<int>{0, 0, 1, 1}));
}

TEST(Balance, GivesTheOddTakerToTheCardThatHasRoom) {
  Spread s = tie(4, 3);
  s.card = {0, 0, 1};
  EXPECT_EQ(spread(s), (std::vector<int>{0, 1, 2, 2}));
}

TEST(Balance, MovesEarlierTakersOutOfTheWay) {
  Spread s = tie(2, 2);
  s.choices[1] = {{0, 0}};  // the second can only have what the first would take
  EXPECT_EQ(spread(s), (std::vector<int>{1, 0}));
}

TEST(Balance, TakesTheShorterWayOnlyWhereLoadsStayEven) {
  Spread s = tie(2, 2);
  s.choices[0] = {{0, 5}, {1, 1}};
  s.choices[1] = {{0, 5}, {1, 1}};
  const auto taken = spread(s);
  EXPECT_NE(taken[0], taken[1]);
  s.choices[1] = {{0, 1}, {1, 5}};
  EXPECT_EQ(spread(s), (std::vector<int>{1, 0}));
}

TEST(Balance, CountsWhatAPortHasAlready) {
  Spread s = tie(1, 2);
  s.load = {1, 0};
  EXPECT_EQ(spread(s), (std::vector<int>{1}));
}

TEST(Balance, LeavesTakersWithoutChoicesAlone) {
  Spread s = tie(2, 1);
  s.choices[0].clear();
  EXPECT_EQ(spread(s), (std::vector<int>{-1, 0}));
  EXPECT_TRUE(spread({}).empty());
}

/// The highest load of any assignment, by trying all.
int best_highest_load(const Spread& s, size_t taker, std::vector<int>& load) {
  if (taker == s.choices.size()) return *std::max_element(load.begin(), load.end());
  int best = 1000;
  for (const Choice& c : s.choices[taker]) {
    ++load[c.port];
    best = std::min(best, best_highest_load(s, taker + 1, load));
    --load[c.port];
  }
  return best;
}

TEST(Balance, IsAsEvenAsAnyAssignmentCanBe) {
  const char* given = std::getenv("TEST_SEED");
  const unsigned seed = given ? static_cast<unsigned>(std::atoi(given)) : std::random_device{}();
  SCOPED_TRACE(testing::Message() << "TEST_SEED=" << seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 300; ++round) {
    Spread s = tie(1 + static_cast<int>(random() % 6), 1 + static_cast<int>(random() % 4));
    for (auto& choices : s.choices) {
      std::erase_if(choices, [&](const Choice& c) { return c.port > 0 && random() % 2; });
      std::shuffle(choices.begin(), choices.end(), random);
      for (Choice& c : choices) c.way = static_cast<int>(random() % 3);
    }
    std::vector<int> load(s.load.size(), 0);
    const auto taken = spread(s);
    for (size_t t = 0; t < taken.size(); ++t) {
      const auto& c = s.choices[t];
      ASSERT_TRUE(std::any_of(c.begin(), c.end(), [&](const Choice& x) { return x.port == taken[t]; }));
      ++load[taken[t]];
    }
    std::vector<int> none(s.load.size(), 0);
    ASSERT_EQ(*std::max_element(load.begin(), load.end()), best_highest_load(s, 0, none));
    ASSERT_EQ(taken, spread(s));
  }
}

TEST(Balance, AnswersForMoreThanAnyMachineHas) {
  const auto taken = spread(tie(500, 400));
  std::vector<int> load(400, 0);
  for (int p : taken) ++load[p];
  EXPECT_LE(*std::max_element(load.begin(), load.end()), 2);
}

}  // namespace
}  // namespace twohop::topology
