// Do the messages about dead rails come out as they went in, and are shortened and lengthened ones refused?
#include <gtest/gtest.h>

#include <algorithm>

#include "transport/verbs/verbs_rail_messages.hpp"

namespace twohop::verbs {
namespace {

HeldMessage some_held() {
  HeldMessage m{{3, 4}, 0x8000000000000001, {}, {}};
  m.in.push_back({0, 1000, {{63, {5, uint64_t{1} << 63}}, {0, {1, 0}}}});
  m.in.push_back({1, 0, {}});
  m.out.push_back({0, 77});
  return m;
}

/// Every prefix, and one byte too many.
template <class F>
void expect_exact(const Payload& whole, F&& decodes) {
  EXPECT_TRUE(decodes(std::span(whole)));
  for (size_t n = 0; n < whole.size(); ++n) EXPECT_FALSE(decodes(std::span(whole).first(n))) << n;
  Payload more = whole;
  more.push_back(std::byte{0});
  EXPECT_FALSE(decodes(std::span(more)));
}

TEST(RailMessages, ComeOutAsTheyWentIn) {
  const auto held = decode_held(encode(some_held()));
  ASSERT_TRUE(held);
  EXPECT_EQ(held->at.path, 3u);
  EXPECT_EQ(held->at.epoch, 4u);
  EXPECT_EQ(held->usable, 0x8000000000000001u);
  ASSERT_EQ(held->in.size(), 2u);
  EXPECT_EQ(held->in[0].arrived, 1000u);
  ASSERT_EQ(held->in[0].slots.size(), 2u);
  EXPECT_EQ(held->in[0].slots[0].number, 63);
  EXPECT_EQ(held->in[0].slots[0].parts[1], uint64_t{1} << 63);
  EXPECT_EQ(held->out[0].credited, 77u);
  const auto connect = decode_connect(encode(ConnectMessage{{1, 2}, 3, 4, {{5, 6}, {7, 8}}}));
  ASSERT_TRUE(connect);
  EXPECT_EQ(connect->lower_rail, 3u);
  EXPECT_EQ(connect->higher_rail, 4u);
  EXPECT_EQ(connect->rows[1].psn, 8u);
  EXPECT_EQ(*decode_rails(encode_rails(0x123456789abcdef0)), 0x123456789abcdef0u);
  EXPECT_EQ(decode_epoch(encode(PathEpoch{9, 8}))->epoch, 8u);
  const auto end = decode_end(encode(EndMessage{twohopSystemError, "why"}));
  ASSERT_TRUE(end);
  EXPECT_EQ(end->code, twohopSystemError);
  EXPECT_EQ(end->cause, "why");
}

TEST(RailMessages, NeverCallAnEndASuccess) {
  for (const uint8_t code : {0, 10, 255}) {  // of success, and of nothing there is
    Payload bytes = encode(EndMessage{twohopTimeout, ""});
    const auto at = std::find(bytes.begin(), bytes.begin() + 4, static_cast<std::byte>(twohopTimeout));
    ASSERT_NE(at, bytes.begin() + 4);
    *at = std::byte{code};
    const auto end = decode_end(bytes);
    ASSERT_TRUE(end);
    EXPECT_EQ(end->code, twohopRemoteError);
  }
}

TEST(RailMessages, OfAnotherLengthAreRefused) {
  expect_exact(encode(some_held()), [](auto bytes) { return decode_held(bytes).has_value(); });
  expect_exact(encode(ConnectMessage{{1, 2}, 3, 4, {{5, 6}}}), [](auto b) { return decode_connect(b).has_value(); });
  expect_exact(encode(DownMessage{{1, 2}, true, "why"}), [](auto b) { return decode_down(b).has_value(); });
  expect_exact(encode(EndMessage{twohopTimeout, "why"}), [](auto b) { return decode_end(b).has_value(); });
  expect_exact(encode(PathEpoch{1, 2}), [](auto b) { return decode_epoch(b).has_value(); });
  expect_exact(encode_rails(1), [](auto b) { return decode_rails(b).has_value(); });
}

TEST(RailMessages, ThatPromiseMoreThanTheyHoldCostNothing) {
  Payload huge(24);  // a path, an epoch, rails, and 2^32 - 1 links
  for (size_t i = 16; i < 20; ++i) huge[i] = std::byte{0xff};
  EXPECT_FALSE(decode_held(huge));
  EXPECT_FALSE(decode_connect(huge));
}

TEST(RailMessages, KeepControlCharactersOutOfTheLog) {
  const auto m = decode_down(encode(DownMessage{{0, 0}, false, "a\nb\x1b[31m" + std::string(5000, 'x')}));
  ASSERT_TRUE(m);
  EXPECT_EQ(m->cause.substr(0, 8), "a b [31m");
  EXPECT_LE(m->cause.size(), 2048u);
}

}  // namespace
}  // namespace twohop::verbs
