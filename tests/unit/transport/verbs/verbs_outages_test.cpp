// Is the first that gives a rail up told so, and the last that gets it back?
#include "transport/verbs/verbs_outages.hpp"

#include <gtest/gtest.h>

#include <optional>

namespace twohop::verbs {
namespace {

TEST(Outages, HaveAFirstAndALastInTheProcess) {
  Outage a("mlx5_0:1"), b("mlx5_0:1"), elsewhere("mlx5_1:1");
  EXPECT_TRUE(a.first());
  EXPECT_FALSE(b.first());
  EXPECT_TRUE(elsewhere.first());
  EXPECT_FALSE(a.end());
  EXPECT_FALSE(a.end()) << "over already";
  EXPECT_TRUE(b.end());
  EXPECT_TRUE(Outage("mlx5_0:1").first()) << "a new one";
}

TEST(Outages, EndWithWhoHasThem) {
  std::optional<Outage> dies;
  dies.emplace("mlx5_2:1");
  Outage lives("mlx5_2:1");
  Outage moved = std::move(*dies);
  dies.reset();
  EXPECT_FALSE(lives.end()) << "the moved one still counts";
  moved = Outage("mlx5_3:1");
  EXPECT_TRUE(Outage("mlx5_2:1").first());
}

}  // namespace
}  // namespace twohop::verbs
