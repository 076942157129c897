// Which arguments does check_call refuse, and does a signature say what the call is?
#include "collectives/exec/call.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace twohop {
namespace {

using testing::HasSubstr;

constexpr int kRanks = 4, kRank = 2;
constexpr uint64_t kCount = 10;

class CheckCall : public testing::Test {
 protected:
  Call call(Collective kind) {
    Call c;
    c.collective = kind;
    c.type = twohopFloat32;
    c.count = kCount;
    c.send = memory_;
    c.recv = memory_ + 500;
    return c;
  }
  static std::string refusal(const Call& c, int rank = kRank, int nranks = kRanks) {
    auto result = check_call(c, rank, nranks);
    if (result) return "accepted";
    EXPECT_EQ(result.error().code, twohopInvalidArgument);
    return result.error().message;
  }
  static bool accepted(const Call& c, int rank = kRank, int nranks = kRanks) {
    return check_call(c, rank, nranks).has_value();
  }

  float memory_[1000] = {};
};

TEST_F(CheckCall, AcceptsDisjointBuffers) {
  for (Collective kind : kCollectives) EXPECT_TRUE(accepted(call(kind))) << static_cast<int>(kind);
}

TEST_F(CheckCall, AcceptsBuffersThatTouch) {
  for (Collective kind : kCollectives) {
    Call c = call(kind);
    const size_t send_blocks = kind == Collective::kReduceScatter ? kRanks : 1;
    const size_t recv_blocks = kind == Collective::kAllGather ? kRanks : 1;
    c.recv = memory_ + send_blocks * kCount;
    EXPECT_TRUE(accepted(c)) << static_cast<int>(kind);
    c.recv = memory_;
    c.send = memory_ + recv_blocks * kCount;
    EXPECT_TRUE(accepted(c)) << static_cast<int>(kind);
  }
}

TEST_F(CheckCall, RefusesNullOnlyWhereThereIsData) {
  for (Collective kind : {Collective::kAllReduce, Collective::kReduceScatter, Collective::kAllGather}) {
    Call c = call(kind);
    c.send = nullptr;
    EXPECT_THAT(refusal(c), HasSubstr("send is NULL"));
    c = call(kind);
    c.recv = nullptr;
    EXPECT_THAT(refusal(c), HasSubstr("recv is NULL"));
    c.send = nullptr;
    c.count = 0;
    EXPECT_TRUE(accepted(c));
  }
}

TEST_F(CheckCall, LooksAtTheSendOfABroadcastOnItsRootOnly) {
  Call c = call(Collective::kBroadcast);
  c.root = 1;
  for (const void* ignored : {static_cast<const void*>(nullptr), static_cast<const void*>(memory_ + 501),
                              static_cast<const void*>(reinterpret_cast<const char*>(memory_) + 1)}) {
    c.send = ignored;
    EXPECT_TRUE(accepted(c, 2));
    EXPECT_FALSE(accepted(c, 1));
  }
  c.recv = nullptr;
  EXPECT_THAT(refusal(c, 2), HasSubstr("recv is NULL"));
}

TEST_F(CheckCall, AcceptsExactlyInPlace) {
  Call c = call(Collective::kAllReduce);
  c.recv = memory_;
  EXPECT_TRUE(accepted(c));
  c.collective = Collective::kBroadcast;
  c.root = kRank;
  EXPECT_TRUE(accepted(c));
  c = call(Collective::kReduceScatter);
  c.recv = memory_ + kRank * kCount;
  EXPECT_TRUE(accepted(c));
  c = call(Collective::kAllGather);
  c.recv = memory_;
  c.send = memory_ + kRank * kCount;
  EXPECT_TRUE(accepted(c));
}

TEST_F(CheckCall, RefusesEveryOtherOverlap) {
  Call c = call(Collective::kAllReduce);
  for (size_t shift = 1; shift < kCount; ++shift) {
    c.recv = memory_ + shift;
    EXPECT_THAT(refusal(c), HasSubstr("send == recv"));
    c.recv = memory_;
    c.send = memory_ + shift;
    EXPECT_THAT(refusal(c), HasSubstr("overlap"));
    c.send = memory_;
  }
  for (size_t shift = 0; shift < kRanks * kCount; ++shift) {
    if (shift == kRank * kCount) continue;
    c = call(Collective::kReduceScatter);
    c.recv = memory_ + shift;
    EXPECT_THAT(refusal(c), HasSubstr("recv == send + rank * recvcount")) << shift;
    c = call(Collective::kAllGather);
    c.recv = memory_;
    c.send = memory_ + shift;
    EXPECT_THAT(refusal(c), HasSubstr("send == recv + rank * sendcount")) << shift;
  }
}

TEST_F(CheckCall, RefusesAMisalignedBuffer) {
  Call c = call(Collective::kAllReduce);
  c.recv = reinterpret_cast<char*>(c.recv) + 2;
  EXPECT_THAT(refusal(c), HasSubstr("recv="));
  EXPECT_THAT(refusal(c), HasSubstr("multiple of 4 bytes"));
  c.type = twohopFloat16;
  EXPECT_TRUE(accepted(c));
  c.type = twohopFloat64;
  EXPECT_FALSE(accepted(c));
}

TEST_F(CheckCall, RefusesCountsThatNoMemoryHolds) {
  for (Collective kind : kCollectives) {
    Call c = call(kind);
    c.root = kRank;
    c.count = UINT64_MAX;
    EXPECT_THAT(refusal(c), HasSubstr("18446744073709551615")) << static_cast<int>(kind);
    c.count = uint64_t{1} << 40;
    EXPECT_FALSE(accepted(c));
  }
  Call c = call(Collective::kAllGather);
  c.type = twohopFloat64;
  c.count = uint64_t{1} << 39;
  EXPECT_THAT(refusal(c, 0, 1 << 30), HasSubstr("sendcount=549755813888"));
  c = call(Collective::kAllReduce);
  c.send = reinterpret_cast<const void*>(UINTPTR_MAX - 7);
  EXPECT_THAT(refusal(c), HasSubstr("past the end of memory"));
}

TEST_F(CheckCall, RefusesARootThatIsNoRank) {
  Call c = call(Collective::kBroadcast);
  for (int root : {-1, kRanks, INT32_MAX, INT32_MIN}) {
    c.root = root;
    EXPECT_THAT(refusal(c), HasSubstr("root=" + std::to_string(root)));
  }
  c.collective = Collective::kAllReduce;  // has no root
  EXPECT_TRUE(accepted(c));
}

TEST_F(CheckCall, AsksNothingOfABarrier) {
  Call c;
  c.barrier = true;
  EXPECT_TRUE(accepted(c));
}

Call random_call(std::mt19937_64& rng) {
  Call c;
  c.collective = kCollectives[rng() % 4];
  c.type = static_cast<twohopDataType_t>(rng() % TWOHOP_NUM_DATATYPES);
  c.op = static_cast<Operation>(rng() % 6);
  c.root = static_cast<int>(rng() % (1 << 17));
  c.count = rng() >> (24 + rng() % 40);
  return c;
}

bool same_for_ranks(const Call& a, const Call& b) {
  if (a.collective != b.collective || a.type != b.type || a.count != b.count) return false;
  if (a.collective == Collective::kBroadcast) return a.root == b.root;
  return a.collective == Collective::kAllGather || a.op == b.op;
}

TEST(Signature, IsEqualExactlyForCallsThatMatch) {
  const uint64_t seed = std::random_device()();
  std::mt19937_64 rng(seed);
  for (int i = 0; i < 20000; ++i) {
    const Call a = random_call(rng);
    Call b = a;
    const Call other = random_call(rng);
    switch (rng() % 6) {
      case 0:
        b.collective = other.collective;
        break;
      case 1:
        b.type = other.type;
        break;
      case 2:
        b.op = other.op;
        break;
      case 3:
        b.root = other.root;
        break;
      case 4:
        b.count = other.count;
        break;
      default:
        b = other;
    }
    const std::string text_a = describe_signature(signature(a)), text_b = describe_signature(signature(b));
    EXPECT_EQ(signature(a) == signature(b), same_for_ranks(a, b)) << text_a << " " << text_b << " seed " << seed;
    EXPECT_EQ(text_a == text_b, same_for_ranks(a, b)) << text_a << " " << text_b << " seed " << seed;
    EXPECT_NE(signature(a), 0u);
  }
}

TEST(Signature, LeavesAPreMultiplierToEachRank) {
  Call a, b;
  a.op = b.op = Operation::kPreMulSum;
  a.pre_multiplier.bits = 1;
  b.pre_multiplier.bits = 2;
  EXPECT_EQ(signature(a), signature(b));
}

TEST(Signature, TellsABarrierFromAnEmptyAllReduce) {
  Call barrier;
  barrier.barrier = true;
  EXPECT_NE(signature(barrier), signature(Call{}));
  EXPECT_EQ(describe_signature(signature(barrier)), "Barrier");
}

TEST(Signature, IsDescribedInTheUsersTerms) {
  Call c;
  c.count = 100;
  c.type = twohopFloat32;
  EXPECT_EQ(describe_signature(signature(c)), "AllReduce(count=100, type=float, op=sum)");
  c.collective = Collective::kReduceScatter;
  c.op = Operation::kPreMulSum;
  EXPECT_EQ(describe_signature(signature(c)), "ReduceScatter(recvcount=100, type=float, op=premulsum)");
  c.collective = Collective::kAllGather;
  EXPECT_EQ(describe_signature(signature(c)), "AllGather(sendcount=100, type=float)");
  c.collective = Collective::kBroadcast;
  c.root = 3;
  EXPECT_EQ(describe_signature(signature(c)), "Broadcast(count=100, type=float, root=3)");
}

TEST(Signature, OfGarbageIsDescribedToo) {
  EXPECT_EQ(describe_signature(0), "no call");
  EXPECT_EQ(describe_signature(UINT64_MAX), "unknown call");
  std::mt19937_64 rng(1);
  for (int i = 0; i < 10000; ++i) EXPECT_FALSE(describe_signature(rng()).empty());
}

}  // namespace
}  // namespace twohop
