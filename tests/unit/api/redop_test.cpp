// Operations of the user's own: what they compute, and how long they live.
#include "ranks.hpp"

namespace twohop {
namespace {

TEST(PreMulSum, ScalesEachRanksContributionByItsOwnScalar) {
  run_ranks(
      3,
      [](int rank, twohopComm_t comm) {
        const float scalar = static_cast<float>(rank + 1);
        twohopRedOp_t op;
        ASSERT_EQ(twohopRedOpCreatePreMulSum(&op, &scalar, twohopFloat32, comm), twohopSuccess);
        EXPECT_GE(static_cast<int>(op), TWOHOP_NUM_OPS);
        std::vector<float> data(100, 2);
        ASSERT_EQ(twohopAllReduce(data.data(), data.data(), data.size(), twohopFloat32, op, comm, nullptr),
                  twohopSuccess)
            << twohopGetLastError(nullptr);
        for (float x : data) ASSERT_EQ(x, 12);
        EXPECT_EQ(twohopRedOpDestroy(op, comm), twohopSuccess);
      },
      ranks_per_node(2));
}

class RedOp : public testing::Test {
 protected:
  twohopRedOp_t make(float scalar) {
    twohopRedOp_t op;
    EXPECT_EQ(twohopRedOpCreatePreMulSum(&op, &scalar, twohopFloat32, ranks_[0]), twohopSuccess);
    return op;
  }
  twohopResult_t use(twohopRedOp_t op, twohopDataType_t type = twohopFloat32) {
    return twohopAllReduce(&x_, &x_, 1, type, op, ranks_[0], nullptr);
  }

  Ranks ranks_{1};
  float x_ = 3;
};

TEST_F(RedOp, IsGoneAfterItsDestruction) {
  const twohopRedOp_t op = make(2);
  EXPECT_EQ(use(op), twohopSuccess);
  EXPECT_EQ(x_, 6);
  EXPECT_EQ(twohopRedOpDestroy(op, ranks_[0]), twohopSuccess);
  expect_refused(use(op), twohopInvalidArgument, "op=");
  expect_refused(twohopRedOpDestroy(op, ranks_[0]), twohopInvalidArgument, "destroyed already");
  EXPECT_NE(make(2), op);  // numbers are not used again
}

TEST_F(RedOp, IsForItsTypeOnly) {
  expect_refused(use(make(2), twohopInt32), twohopInvalidArgument, "was made for float");
}

TEST_F(RedOp, IsForItsCommunicatorOnly) {
  const twohopRedOp_t op = make(2);
  Ranks other(1);
  expect_refused(twohopAllReduce(&x_, &x_, 1, twohopFloat32, op, other[0], nullptr), twohopInvalidArgument, "op=");
}

TEST_F(RedOp, ThatIsBuiltInCannotBeDestroyed) {
  expect_refused(twohopRedOpDestroy(twohopSum, ranks_[0]), twohopInvalidArgument, "built in");
}

TEST_F(RedOp, NeedsAScalar) {
  twohopRedOp_t op;
  expect_refused(twohopRedOpCreatePreMulSum(&op, nullptr, twohopFloat32, ranks_[0]), twohopInvalidArgument,
                 "scalar is NULL");
}

TEST_F(RedOp, MayBeDestroyedWhileACallIsCollected) {
  const twohopRedOp_t op = make(5);
  ASSERT_EQ(twohopGroupStart(), twohopSuccess);
  EXPECT_EQ(use(op), twohopSuccess);
  EXPECT_EQ(twohopRedOpDestroy(op, ranks_[0]), twohopSuccess);
  EXPECT_EQ(twohopGroupEnd(), twohopSuccess);
  EXPECT_EQ(x_, 15);
}

}  // namespace
}  // namespace twohop
