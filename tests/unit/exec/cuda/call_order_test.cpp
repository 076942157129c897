// Is a call ordered after the one before it, whatever the streams?
#include "collectives/exec/cuda/call_order.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace twohop {
namespace {

std::vector<std::string> asked;  // of the event

struct Event {
  static Result<> create() { return {}; }
  static Result<> delay(int stream) {
    asked.push_back("delay " + std::to_string(stream));
    return {};
  }
  static Result<> record(int stream) {
    if (stream < 0) return make_error(twohopUnhandledCudaError, "no such stream");
    asked.push_back("record " + std::to_string(stream));
    return {};
  }
  static Result<> wait() {
    asked.push_back("wait");
    return {};
  }
};

class CallOrderTest : public testing::Test {
 protected:
  void SetUp() override { asked.clear(); }
  bool call(int stream) { return order_.before(stream) && order_.after(stream); }
  CallOrder<Event> order_;
};

TEST_F(CallOrderTest, DelaysACallOnAnotherStream) {
  EXPECT_TRUE(call(1) && call(2));
  EXPECT_THAT(asked, testing::ElementsAre("record 1", "delay 2", "record 2"));
}

/// It may be another stream all the same: cudaStreamPerThread in another thread, or one made after the first was
/// destroyed.
TEST_F(CallOrderTest, DelaysACallOnAStreamOfTheSameHandle) {
  EXPECT_TRUE(call(2) && call(2));
  EXPECT_THAT(asked, testing::ElementsAre("record 2", "delay 2", "record 2"));
}

TEST_F(CallOrderTest, WaitsForNothingThatWasNotRecordedOrIsForgotten) {
  EXPECT_FALSE(call(-1));
  EXPECT_TRUE(order_.wait());
  EXPECT_TRUE(call(1));
  order_.forget();
  EXPECT_TRUE(order_.wait());
  EXPECT_TRUE(call(3));
  EXPECT_THAT(asked, testing::ElementsAre("record 1", "record 3"));
  EXPECT_TRUE(order_.wait());
  EXPECT_EQ(asked.back(), "wait");
}

}  // namespace
}  // namespace twohop
