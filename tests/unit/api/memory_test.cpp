// twohopCommRegister, twohopMemAlloc and their undoing: what is refused, and what it says.
#include "collectives/exec/gpu/gpu_runtime.hpp"
#include "ranks.hpp"
#include "twohop/twohop.hpp"

namespace twohop {
namespace {

class Memory : public testing::Test {
 protected:
  void* add(void* buffer, size_t bytes) {
    void* handle = nullptr;
    EXPECT_EQ(twohopCommRegister(ranks_[0], buffer, bytes, &handle), twohopSuccess) << twohopGetLastError(nullptr);
    return handle;
  }
  Ranks ranks_{1};
  std::vector<char> buffer_ = std::vector<char>(1000);
};

TEST_F(Memory, IsRegisteredAndDeregisteredOnce) {
  void* handle = add(buffer_.data(), buffer_.size());
  EXPECT_EQ(twohopCommDeregister(ranks_[0], handle), twohopSuccess);
  expect_refused(twohopCommDeregister(ranks_[0], handle), twohopInvalidArgument, "deregistered already");
  expect_refused(twohopCommDeregister(ranks_[0], nullptr), twohopInvalidArgument, "is no registration");
}

TEST_F(Memory, ThatOverlapsIsRefused) {
  add(buffer_.data(), 500);
  void* handle = nullptr;
  expect_refused(twohopCommRegister(ranks_[0], buffer_.data() + 400, 200, &handle), twohopInvalidUsage,
                 "which is registered");
  EXPECT_EQ(handle, nullptr);
  add(buffer_.data() + 500, 500);
}

TEST_F(Memory, NeedsAPlaceASizeAndALiveCommunicator) {
  void* handle = nullptr;
  expect_refused(twohopCommRegister(ranks_[0], nullptr, 1, &handle), twohopInvalidArgument, "buffer");
  expect_refused(twohopCommRegister(ranks_[0], buffer_.data(), 0, &handle), twohopInvalidArgument, "bytes=0");
  expect_refused(twohopCommRegister(ranks_[0], buffer_.data(), 1, nullptr), twohopInvalidArgument, "handle");
  expect_refused(twohopCommRegister(ranks_[0], buffer_.data(), SIZE_MAX, &handle), twohopInvalidArgument,
                 "past the end of memory");
  expect_refused(twohopCommRegister(nullptr, buffer_.data(), 1, &handle), twohopInvalidArgument, "");
}

TEST_F(Memory, OfMemAllocIsZeroedAlignedAndFreedOnce) {
  void* memory = nullptr;
  ASSERT_EQ(twohopMemAlloc(&memory, 10'000), twohopSuccess);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % 4096, 0u);
  for (int i = 0; i < 10'000; ++i) ASSERT_EQ(static_cast<char*>(memory)[i], 0);
  expect_refused(twohopMemFree(static_cast<char*>(memory) + 1), twohopInvalidArgument, "is not the start");
  EXPECT_EQ(twohopMemFree(memory), twohopSuccess);
  expect_refused(twohopMemFree(memory), twohopInvalidArgument, "freed already");
  EXPECT_EQ(twohopMemFree(nullptr), twohopSuccess);
  expect_refused(twohopMemAlloc(&memory, 0), twohopInvalidArgument, "bytes=0");
  expect_refused(twohopMemAlloc(nullptr, 1), twohopInvalidArgument, "memory");
  expect_refused(twohopMemAlloc(&memory, SIZE_MAX / 2), twohopSystemError, "cannot allocate");
}

TEST_F(Memory, ThatIsRegisteredIsNotFreed) {
  void* memory = nullptr;
  ASSERT_EQ(twohopMemAlloc(&memory, 8192), twohopSuccess);
  void* handle = add(static_cast<char*>(memory) + 100, 200);
  expect_refused(twohopMemFree(memory), twohopInvalidUsage, "call twohopCommDeregister first");
  EXPECT_EQ(twohopCommDeregister(ranks_[0], handle), twohopSuccess);
  EXPECT_EQ(twohopMemFree(memory), twohopSuccess);
}

TEST_F(Memory, IsReleasedWithItsCommunicator) {
  void* memory = nullptr;
  ASSERT_EQ(twohopMemAlloc(&memory, 8192), twohopSuccess);
  {
    Ranks other(1);
    void* handle = nullptr;
    ASSERT_EQ(twohopCommRegister(other[0], memory, 8192, &handle), twohopSuccess);
  }
  EXPECT_EQ(twohopMemFree(memory), twohopSuccess);
}

TEST(CxxMemory, OfNElementsIsFreedByScope) {
  float* at = nullptr;
  {
    HostMemory<float> data(1000);
    EXPECT_EQ(data.end() - data.begin(), 1000);
    at = data.data();
  }
  expect_refused(twohopMemFree(at), twohopInvalidArgument, "freed already");
}

TEST(CxxMemory, OfADeviceNeedsOne) {
  if (gpu_runtime()) GTEST_SKIP() << "there is one";
  void* memory = nullptr;
  expect_refused(twohopMemAllocDevice(&memory, 8), twohopInvalidUsage, "there is no GPU");
  expect_refused(twohopMemAllocDevice(&memory, 0), twohopInvalidArgument, "bytes=0");
  expect_refused(twohopMemAllocDevice(nullptr, 8), twohopInvalidArgument, "memory");
  EXPECT_THROW(DeviceMemory<float>(1000), Exception);
}

}  // namespace
}  // namespace twohop
