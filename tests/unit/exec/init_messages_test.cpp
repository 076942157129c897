// What ranks tell each other while they join: is it read as it was written, and does nothing that another process sends
// crash this one?
#include "collectives/exec/init_messages.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace twohop {
namespace {

using Json = nlohmann::json;
using ::testing::HasSubstr;

std::vector<Bytes> messages(const std::vector<std::string>& texts) {
  std::vector<Bytes> all;
  for (const std::string& text : texts) {
    const auto bytes = std::as_bytes(std::span(text));
    all.emplace_back(bytes.begin(), bytes.end());
  }
  return all;
}

TEST(InitMessages, ComeBackInTheOrderOfTheRanks) {
  const auto values = read_init_messages(messages({write_init_message(Json("a")), write_init_message(Json{1, 2})}));
  ASSERT_TRUE(values) << values.error().message;
  EXPECT_EQ(values->at(0), Json("a"));
  EXPECT_EQ(values->at(1), (Json{1, 2}));
}

TEST(InitMessages, AnErrorOfOneRankIsTheErrorOfAll) {
  const Error mine = make_error(twohopSystemError, "no memory");
  const auto values = read_init_messages(messages({write_init_message(Json(1)), write_init_message(mine)}));
  ASSERT_FALSE(values);
  EXPECT_EQ(values.error().code, twohopSystemError);
  EXPECT_EQ(values.error().rank, 1);
  EXPECT_EQ(values.error().message, "rank 1: no memory");
}

TEST(InitMessages, ThatCannotBeReadNameTheirRank) {
  const std::string deep = R"({"ok": )" + std::string(30'000, '[') + std::string(30'000, ']') + "}";
  for (const std::string& text : {std::string(), std::string("{"), std::string("[]"), std::string("{}"), deep}) {
    const auto values = read_init_messages(messages({write_init_message(Json(1)), text}));
    ASSERT_FALSE(values) << text.substr(0, 40);
    EXPECT_THAT(values.error().message, HasSubstr("rank 1"));
  }
}

TEST(InitMessages, AnErrorWithAWrongCodeIsStillAnError) {
  for (const char* text :
       {R"({"code": "x", "error": "e"})", R"({"code": 0, "error": "e"})", R"({"code": 1e30, "error": "e"})"}) {
    const auto values = read_init_messages(messages({text}));
    ASSERT_FALSE(values);
    EXPECT_EQ(values.error().code, twohopRemoteError) << text;
  }
}

RankIntroduction introduction() {
  return {"host", "machine", "exchange", Bytes{std::byte{0}, std::byte{255}}, Json{{"TWOHOP_ALGO", "auto"}}, {0, 3}};
}

TEST(RankIntroductions, SurviveBeingWrittenAndRead) {
  const auto read = read_introduction(3, write_introduction(introduction()));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->host, "host");
  EXPECT_EQ(read->machine, "machine");
  EXPECT_EQ(read->exchange, "exchange");
  EXPECT_EQ(read->address, introduction().address);
  EXPECT_EQ(read->settings, introduction().settings);
  EXPECT_EQ(read->rails, introduction().rails);
  EXPECT_FALSE(read->gpu);
}

TEST(RankIntroductions, TellOfAGpu) {
  RankIntroduction with_gpu = introduction();
  with_gpu.gpu = {"GPU-1", Bytes{std::byte{7}}};
  const auto read = read_introduction(3, write_introduction(with_gpu));
  ASSERT_TRUE(read) << read.error().message;
  ASSERT_TRUE(read->gpu);
  EXPECT_EQ(read->gpu->identity, "GPU-1");
  EXPECT_EQ(read->gpu->address, Bytes{std::byte{7}});
  for (const Json& gpu : {Json(1), Json{{"identity", "GPU-1"}}, Json{{"identity", 1}, {"address", Json::array()}},
                          Json{{"identity", "GPU-1"}, {"address", Json{256}}}}) {
    Json message = write_introduction(introduction());
    message["gpu"] = gpu;
    EXPECT_FALSE(read_introduction(0, message)) << gpu;
  }
}

/// A rank of another version may lack a member.
TEST(RankIntroductions, WithAMemberMissingOrOfAnotherTypeAreRefused) {
  for (const char* member : {"host", "machine", "exchange", "address", "settings", "rails", "gpu"}) {
    Json message = write_introduction(introduction());
    message[member] = 1;
    EXPECT_FALSE(read_introduction(0, message)) << member;
    message.erase(member);
    const auto read = read_introduction(7, message);
    ASSERT_FALSE(read) << member;
    EXPECT_EQ(read.error().rank, 7);
  }
  EXPECT_FALSE(read_introduction(0, Json("text")));
  Json message = write_introduction(introduction());
  message["address"] = Json{1, 256};
  EXPECT_FALSE(read_introduction(0, message));
  message = write_introduction(introduction());
  message["rails"] = Json{int64_t{1} << 40};
  EXPECT_FALSE(read_introduction(0, message));
}

TEST(GpuMessages, SurviveBeingWrittenAndRead) {
  for (const GpuDirectAnswer& answer : {GpuDirectAnswer{true, "dma-buf"}, GpuDirectAnswer{false, "no module"}}) {
    const auto read = read_gpudirect(1, write_gpudirect(answer));
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(*read, answer);
  }
  EXPECT_EQ(*read_text(1, Json("why")), "why");
  EXPECT_EQ(*read_count(1, Json(132u)), 132u);
}

TEST(GpuMessages, OfAnotherKindAreRefusedAndNameTheirRank) {
  for (const Json& odd : {Json(), Json(-1), Json(1.5), Json::array(), Json::object(), Json{{"way", 1}},
                          Json{{"why_not", nullptr}}, Json(uint64_t{1} << 32)}) {
    const auto way = read_gpudirect(5, odd);
    ASSERT_FALSE(way) << odd;
    EXPECT_EQ(way.error().rank, 5);
    EXPECT_FALSE(read_text(5, odd)) << odd;
    EXPECT_FALSE(read_count(5, odd)) << odd;
  }
}

TEST(Settings, ThatDifferAreNamed) {
  EXPECT_TRUE(compare_settings(1, Json{{"A", 1}}, Json{{"A", 1}}));
  EXPECT_THAT(compare_settings(1, Json{{"A", 1}}, Json{{"A", 2}}).error().message,
              HasSubstr("A differs between ranks"));
  EXPECT_THAT(compare_settings(1, Json{{"A", 1}}, Json::object()).error().message, HasSubstr("nothing on rank 1"));
  EXPECT_FALSE(compare_settings(1, Json{{"A", 1}}, Json{{"A", 1}, {"B", 2}}));
}

}  // namespace
}  // namespace twohop
