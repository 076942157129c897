#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "device/reduce.hpp"
#include "reference.hpp"

namespace twohop {
namespace {

TEST(LoadScalar, ReadsEveryPatternOfTheSmallFloatsExactly) {
  for (auto type : {twohopFloat16, twohopBfloat16, twohopFloat8e4m3, twohopFloat8e5m2}) {
    for (uint64_t pattern = 0; pattern < uint64_t(1) << (8 * type_size(type)); ++pattern) {
      unsigned char element[3];
      reference::put(type, element + 1, 0, pattern);  // misaligned
      const float got = load_scalar(element + 1, type).f32;
      const double want = reference::decode(type, pattern);
      if (std::isnan(want)) {
        ASSERT_TRUE(std::isnan(got)) << type_name(type) << " " << pattern;
      } else {
        ASSERT_EQ(got, want) << type_name(type) << " " << pattern;
        ASSERT_EQ(std::signbit(got), std::signbit(want)) << type_name(type) << " " << pattern;
      }
    }
  }
}

TEST(LoadScalar, ReadsIntegersAndWideFloatsByTheirBits) {
  const int32_t minus_three = -3;
  EXPECT_EQ(uint32_t(load_scalar(&minus_three, twohopInt32).bits), 0xfffffffdu);
  const uint8_t byte = 200;
  EXPECT_EQ(load_scalar(&byte, twohopUint8).bits, 200u);
  const double d = -0.1;
  EXPECT_EQ(load_scalar(&d, twohopFloat64).f64, -0.1);
  const float f = 0.1f;
  EXPECT_EQ(load_scalar(&f, twohopFloat32).f32, 0.1f);
}

TEST(Reciprocal, IsOneOverNForFloatsAndOneForIntegers) {
  EXPECT_EQ(reciprocal(twohopFloat64, 3).f64, 1.0 / 3);
  EXPECT_EQ(reciprocal(twohopFloat8e4m3, 3).f32, 1.0f / 3);
  EXPECT_EQ(reciprocal(twohopInt64, 3).bits, 1u);
  EXPECT_EQ(one(twohopFloat16).f32, 1.0f);
  EXPECT_EQ(one(twohopUint8).bits, 1u);
}

TEST(DataTypes, HaveTheSizesAndNamesThatUsersKnow) {
  EXPECT_EQ(type_size(twohopBfloat16), 2u);
  EXPECT_EQ(type_size(twohopFloat8e5m2), 1u);
  EXPECT_STREQ(type_name(twohopFloat16), "half");
  EXPECT_STREQ(type_name(twohopFloat32), "float");
  EXPECT_FALSE(is_floating(twohopUint64));
  EXPECT_TRUE(is_floating(twohopFloat8e4m3));
}

}  // namespace
}  // namespace twohop
