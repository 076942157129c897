// Does TWOHOP_IB_HCA select what NCCL's syntax says, and is everything else refused?
#include "transport/verbs/verbs_hca_list.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace twohop::verbs {
namespace {

using ::testing::HasSubstr;

/// Which of mlx5_0:1, mlx5_0:2, mlx5_1:1, mlx5_10:1, bond0:1 are allowed, as letters a to e.
std::string allowed(const std::string& text) {
  auto list = HcaList::parse(text);
  if (!list) return list.error().message;
  const std::pair<const char*, int> ports[] = {
      {"mlx5_0", 1}, {"mlx5_0", 2}, {"mlx5_1", 1}, {"mlx5_10", 1}, {"bond0", 1}};
  std::string letters;
  for (int i = 0; i < 5; ++i)
    if (list->allows(ports[i].first, ports[i].second)) letters += static_cast<char>('a' + i);
  return letters;
}

TEST(HcaList, AllowsEverythingWhenEmpty) {
  EXPECT_EQ(allowed(""), "abcde");
}

TEST(HcaList, TakesNamesAsPrefixes) {
  EXPECT_EQ(allowed("mlx5"), "abcd");
  EXPECT_EQ(allowed("mlx5_1"), "cd");
  EXPECT_EQ(allowed("mlx5_1,bond"), "cde");
}

TEST(HcaList, TakesWholeNamesAfterAnEqualsSign) {
  EXPECT_EQ(allowed("=mlx5_1"), "c");
  EXPECT_EQ(allowed("=mlx5_1,mlx5_0"), "abc");
  EXPECT_EQ(allowed("=mlx5"), "");
}

TEST(HcaList, ExcludesAfterACaret) {
  EXPECT_EQ(allowed("^mlx5_1"), "abe");
  EXPECT_EQ(allowed("^=mlx5_1"), "abde");
  EXPECT_EQ(allowed("^=mlx5_1,bond0"), "abd");
  EXPECT_EQ(allowed("^mlx5_0:2"), "acde");
}

TEST(HcaList, TakesPorts) {
  EXPECT_EQ(allowed("mlx5_0:2"), "b");
  EXPECT_EQ(allowed("=mlx5_0:1,mlx5_10:1"), "ad");
  EXPECT_EQ(allowed("mlx5:1"), "acd");
}

TEST(HcaList, OrdersPortsByTheirPlaceInTheList) {
  const auto list = HcaList::parse("bond0,mlx5_1:1,mlx5");
  ASSERT_TRUE(list);
  EXPECT_EQ(list->order("bond0", 1), 0u);
  EXPECT_EQ(list->order("mlx5_1", 1), 1u);
  EXPECT_EQ(list->order("mlx5_0", 1), 2u);
}

// A prefix repeated on later items is read elsewhere as part of a name, and the device stays in use without a word.
TEST(HcaList, RefusesAPrefixThatIsRepeated) {
  EXPECT_THAT(allowed("^=mlx5_8,^=mlx5_14"), HasSubstr("\"^=mlx5_14\" repeats a prefix"));
  EXPECT_THAT(allowed("=mlx5_8,=mlx5_14"), HasSubstr("repeats a prefix"));
  EXPECT_THAT(allowed("=^mlx5_8"), HasSubstr("repeats a prefix"));
}

TEST(HcaList, RefusesWhatIsNoDeviceOrPort) {
  for (const char* text : {",", "mlx5_0,", "^", "=", "mlx5 0", "mlx5_0:", "mlx5_0:0", "mlx5_0:256", "mlx5_0:1x",
                           "mlx5_0:-1", ":1", "mlx5_0:1:1", "a;b"})
    EXPECT_THAT(allowed(text), HasSubstr("TWOHOP_IB_HCA: ")) << text;
}

TEST(HcaListTest, ShowsTheRightFormOfAListWithARepeatedPrefix) {
  auto list = HcaList::parse("^=mlx5_8,^=mlx5_14");
  ASSERT_FALSE(list);
  EXPECT_NE(list.error().message.find("repeats a prefix: write ^=mlx5_8,mlx5_14;"), std::string::npos)
      << list.error().message;
}

TEST(HcaListTest, TellsWhichItemsMatchNothing) {
  const std::vector<HcaPort> ports = {{"mlx5_0", 1}, {"mlx5_0", 2}, {"mlx5_1", 1}};
  EXPECT_TRUE(HcaList::parse("mlx5")->unmatched(ports).empty());
  EXPECT_EQ(HcaList::parse("=mlx5_0,mlx5_1:2,mlx5_7")->unmatched(ports),
            (std::vector<std::string>{"mlx5_1:2", "mlx5_7"}));
  EXPECT_TRUE(HcaList::parse("")->unmatched(ports).empty());
}

}  // namespace
}  // namespace twohop::verbs
