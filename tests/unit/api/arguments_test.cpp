// Does every function of the C API refuse what it cannot use, naming the argument?
#include "ranks.hpp"

namespace twohop {
namespace {

/// A communicator of one rank, and buffers.
class Arguments : public testing::Test {
 protected:
  static void refused(twohopResult_t result, const std::string& text) {
    expect_refused(result, twohopInvalidArgument, text);
  }

  Ranks ranks_{1};
  twohopComm_t comm_ = ranks_[0];
  float a_[8] = {}, b_[8] = {};
};

TEST_F(Arguments, NullPlacesForAnswersAreNamed) {
  refused(twohopGetVersion(nullptr), "version is NULL");
  refused(twohopGetUniqueId(nullptr), "id is NULL");
  refused(twohopCommInitRank(nullptr, 1, unique_id(), 0), "comm is NULL");
  refused(twohopCommInitRankConfig(nullptr, 1, unique_id(), 0, nullptr), "comm is NULL");
  refused(twohopCommInitEnv(nullptr, nullptr), "comm is NULL");
  refused(twohopCommUserRank(comm_, nullptr), "rank is NULL");
  refused(twohopCommCount(comm_, nullptr), "nranks is NULL");
  refused(twohopCommShape(comm_, nullptr), "shape is NULL");
  refused(twohopCommGetAsyncError(comm_, nullptr), "async_error is NULL");
  refused(twohopCommGetCounters(comm_, nullptr), "counters is NULL");
  refused(twohopStreamCreate(nullptr), "stream is NULL");
  refused(twohopRedOpCreatePreMulSum(nullptr, a_, twohopFloat32, comm_), "op is NULL");
}

/// Calls every function that takes a communicator, with `comm`.
template <class Expect>
void use_everywhere(twohopComm_t comm, Expect&& expect) {
  int number;
  twohopShape_t shape;
  twohopResult_t async_error;
  twohopCounters_t counters{};
  counters.size = sizeof counters;
  float a[2] = {}, b[2] = {};
  twohopRedOp_t op;
  expect(twohopCommUserRank(comm, &number));
  expect(twohopCommCount(comm, &number));
  expect(twohopCommShape(comm, &shape));
  expect(twohopCommAbort(comm));
  expect(twohopCommGetAsyncError(comm, &async_error));
  expect(twohopCommGetCounters(comm, &counters));
  expect(twohopAllReduce(a, b, 2, twohopFloat32, twohopSum, comm, nullptr));
  expect(twohopReduceScatter(a, b, 2, twohopFloat32, twohopSum, comm, nullptr));
  expect(twohopAllGather(a, b, 2, twohopFloat32, comm, nullptr));
  expect(twohopBroadcast(a, b, 2, twohopFloat32, 0, comm, nullptr));
  expect(twohopBarrier(comm, nullptr));
  expect(twohopRedOpCreatePreMulSum(&op, a, twohopFloat32, comm));
  expect(twohopRedOpDestroy(static_cast<twohopRedOp_t>(TWOHOP_NUM_OPS), comm));
}

TEST_F(Arguments, ANullCommunicatorIsRefusedEverywhereButInDestroy) {
  use_everywhere(nullptr, [](twohopResult_t r) { refused(r, "comm is NULL"); });
  EXPECT_EQ(twohopCommDestroy(nullptr), twohopSuccess);
}

TEST_F(Arguments, AGarbageCommunicatorIsRefusedEverywhere) {
  auto garbage = reinterpret_cast<twohopComm_t>(uintptr_t{0x10});
  use_everywhere(garbage, [](twohopResult_t r) { refused(r, "comm=0x10 is not a communicator"); });
  refused(twohopCommDestroy(garbage), "not a communicator");
  EXPECT_THAT(std::string(twohopGetLastError(garbage)), testing::HasSubstr("not a communicator"));
}

TEST_F(Arguments, ADestroyedCommunicatorIsRefusedEverywhere) {
  twohopComm_t comm = nullptr;
  ASSERT_EQ(twohopCommInitRank(&comm, 1, unique_id(), 0), twohopSuccess) << twohopGetLastError(nullptr);
  ASSERT_EQ(twohopBarrier(comm, nullptr), twohopSuccess);
  ASSERT_EQ(twohopCommDestroy(comm), twohopSuccess);
  use_everywhere(comm, [](twohopResult_t r) { refused(r, "destroyed"); });
  refused(twohopCommDestroy(comm), "destroyed");
}

TEST_F(Arguments, ABadTypeIsRefusedByEveryCollective) {
  for (int value : {-1, TWOHOP_NUM_DATATYPES, 99, INT32_MAX}) {
    const auto bad = bad_enum<twohopDataType_t>(value);
    const std::string text = "type=" + std::to_string(value);
    refused(twohopAllReduce(a_, b_, 1, bad, twohopSum, comm_, nullptr), text);
    refused(twohopReduceScatter(a_, b_, 1, bad, twohopSum, comm_, nullptr), text);
    refused(twohopAllGather(a_, b_, 1, bad, comm_, nullptr), text);
    refused(twohopBroadcast(a_, b_, 1, bad, 0, comm_, nullptr), text);
    twohopRedOp_t op;
    refused(twohopRedOpCreatePreMulSum(&op, a_, bad, comm_), text);
  }
}

TEST_F(Arguments, ABadOperationIsRefused) {
  for (int value : {-1, TWOHOP_NUM_OPS, 1000, INT32_MAX}) {
    const auto bad = bad_enum<twohopRedOp_t>(value);
    const std::string text = "op=" + std::to_string(value);
    refused(twohopAllReduce(a_, b_, 1, twohopFloat32, bad, comm_, nullptr), text);
    refused(twohopReduceScatter(a_, b_, 1, twohopFloat32, bad, comm_, nullptr), text);
    refused(twohopRedOpDestroy(bad, comm_), text);
  }
}

TEST_F(Arguments, BadBuffersAreRefusedWithTheFunctionsName) {
  refused(twohopAllReduce(nullptr, b_, 1, twohopFloat32, twohopSum, comm_, nullptr),
          "twohopAllReduce: send is NULL with count=1");
  refused(twohopReduceScatter(a_, nullptr, 1, twohopFloat32, twohopSum, comm_, nullptr),
          "twohopReduceScatter: recv is NULL with recvcount=1");
  refused(twohopAllGather(a_, a_ + 1, 2, twohopFloat32, comm_, nullptr), "overlap");
  refused(twohopBroadcast(a_, b_, 1, twohopFloat32, 1, comm_, nullptr), "twohopBroadcast: root=1");
  refused(twohopAllReduce(a_, b_, SIZE_MAX, twohopFloat32, twohopSum, comm_, nullptr), "count=18446744073709551615");
  EXPECT_EQ(twohopAllReduce(nullptr, nullptr, 0, twohopFloat32, twohopSum, comm_, nullptr), twohopSuccess);
}

TEST_F(Arguments, AGarbageStreamIsRefused) {
  auto garbage = reinterpret_cast<twohopStream_t>(uintptr_t{0x20});
  refused(twohopAllReduce(a_, b_, 1, twohopFloat32, twohopSum, comm_, garbage), "stream=0x20 is not a twohop stream");
  refused(twohopBarrier(comm_, garbage), "stream");
  refused(twohopStreamSynchronize(garbage), "stream");
  refused(twohopStreamQuery(garbage), "stream");
  refused(twohopStreamDestroy(garbage), "stream");
  refused(twohopStreamSynchronize(nullptr), "stream is NULL");
  refused(twohopStreamQuery(nullptr), "stream is NULL");
  refused(twohopStreamDestroy(nullptr), "stream is NULL");
}

TEST_F(Arguments, ARefusedCallDoesNotHarmTheCommunicator) {
  refused(twohopAllReduce(nullptr, b_, 1, twohopFloat32, twohopSum, comm_, nullptr), "send");
  EXPECT_THAT(std::string(twohopGetLastError(comm_)), testing::HasSubstr("send is NULL"));
  twohopResult_t async_error = twohopInternalError;
  EXPECT_EQ(twohopCommGetAsyncError(comm_, &async_error), twohopSuccess);
  EXPECT_EQ(async_error, twohopSuccess);
  a_[0] = 5;
  EXPECT_EQ(twohopAllReduce(a_, b_, 1, twohopFloat32, twohopSum, comm_, nullptr), twohopSuccess);
  EXPECT_EQ(b_[0], 5);
}

TEST_F(Arguments, PlacesThatAreNoneAreRefused) {
  twohopComm_t comm = comm_;
  refused(twohopCommInitRank(&comm, 0, unique_id(), 0), "nranks=0");
  EXPECT_EQ(comm, nullptr);
  refused(twohopCommInitRank(&comm, -3, unique_id(), 0), "nranks=-3");
  refused(twohopCommInitRank(&comm, 2, unique_id(), 2), "rank=2: accepted are 0 to 1");
  refused(twohopCommInitRank(&comm, 2, unique_id(), -1), "rank=-1");
  refused(twohopCommInitRank(&comm, 1, twohopUniqueId{}, 0), "twohopCommInitRank: ");
}

TEST_F(Arguments, CountersOfAnOlderOrNewerCallerAreFilled) {
  struct {
    twohopCounters_t known;
    uint64_t newer[2];
  } counters = {{}, {7, 7}};
  counters.known.size = sizeof counters;
  ASSERT_EQ(twohopBarrier(comm_, nullptr), twohopSuccess);
  ASSERT_EQ(twohopCommGetCounters(comm_, &counters.known), twohopSuccess);
  EXPECT_EQ(counters.known.calls, 1u);
  EXPECT_EQ(counters.known.size, sizeof counters);
  EXPECT_EQ(counters.newer[0], 0u);
  // What lies past the size of an older caller is not touched.
  counters.known = {};
  counters.known.size = offsetof(twohopCounters_t, init_ns);
  counters.known.init_ns = counters.known.retries = 7;
  ASSERT_EQ(twohopCommGetCounters(comm_, &counters.known), twohopSuccess);
  EXPECT_EQ(counters.known.calls, 1u);
  EXPECT_EQ(counters.known.init_ns, 7u);
  EXPECT_EQ(counters.known.retries, 7u);
  for (size_t size : {size_t{0}, size_t{8}, SIZE_MAX}) {
    counters.known.size = size;
    refused(twohopCommGetCounters(comm_, &counters.known), "counters.size=" + std::to_string(size));
  }
}

TEST(Errors, HaveATextForEveryCode) {
  for (int code = -1; code <= 11; ++code) {
    const char* text = twohopGetErrorString(bad_enum<twohopResult_t>(code));
    ASSERT_NE(text, nullptr);
    EXPECT_NE(*text, '\0');
  }
  EXPECT_STREQ(twohopGetErrorString(twohopSuccess), "no error");
}

TEST(Errors, AreKeptPerThread) {
  (void)twohopGetVersion(nullptr);
  EXPECT_STRNE(twohopGetLastError(nullptr), "");
  std::thread([] { EXPECT_STREQ(twohopGetLastError(nullptr), ""); }).join();
}

TEST(Version, IsTheHeaders) {
  int version = 0;
  EXPECT_EQ(twohopGetVersion(&version), twohopSuccess);
  EXPECT_EQ(version, TWOHOP_VERSION_CODE);
}

}  // namespace
}  // namespace twohop
