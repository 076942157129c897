// Does Result carry a value or an error, never both and never neither?
#include "base/result.hpp"

#include <gtest/gtest.h>

#include <memory>

namespace twohop {
namespace {

Result<int> half(int n) {
  if (n % 2 != 0) return make_error(twohopInvalidArgument, "n={}: accepted are even numbers", n);
  return n / 2;
}

Result<std::string> quarter_as_text(int n) {
  Result<int> once = half(n);
  if (!once) return once.error();
  Result<int> twice = half(*once);
  if (!twice) return twice.error();
  return std::to_string(*twice);
}

TEST(Result, CarriesAValue) {
  Result<std::string> text = quarter_as_text(8);
  ASSERT_TRUE(text);
  EXPECT_EQ(*text, "2");
  EXPECT_EQ(text->size(), 1u);
}

TEST(Result, CarriesAnErrorUpThroughOtherTypesUntouched) {
  Result<std::string> text = quarter_as_text(6);
  ASSERT_FALSE(text);
  EXPECT_EQ(text.error().code, twohopInvalidArgument);
  EXPECT_EQ(text.error().message, "n=3: accepted are even numbers");
  EXPECT_EQ(text.error().rank, -1);
}

TEST(Result, OfVoidSucceedsByDefault) {
  Result<> nothing;
  EXPECT_TRUE(nothing);
  nothing = make_error(twohopTimeout, "late");
  EXPECT_FALSE(nothing);
  EXPECT_EQ(nothing.error().code, twohopTimeout);
}

TEST(Result, HoldsMoveOnlyValues) {
  Result<std::unique_ptr<int>> made = std::make_unique<int>(7);
  ASSERT_TRUE(made);
  std::unique_ptr<int> taken = *std::move(made);
  EXPECT_EQ(*taken, 7);
}

TEST(Result, SystemErrorEndsInTheCauseAndItsNumber) {
  Error e = system_error(ENOENT, "open {}", "x");
  EXPECT_EQ(e.code, twohopSystemError);
  EXPECT_EQ(e.sys_errno, ENOENT);
  EXPECT_EQ(e.message, "open x: No such file or directory (errno 2)");
}

}  // namespace
}  // namespace twohop
