// Whatever the thread has chosen, or that it has chosen nothing: inside the guard its GPU is ours, afterwards it is
// what it was, and no other GPU has come by a context.
#include "device/cuda/on_device.hpp"

#include <gtest/gtest.h>

#include <set>
#include <thread>

#include "unit/device/cuda/played_contexts.hpp"

namespace twohop {
namespace {

using played::context_of;
using played::stack;

struct Fake {
  std::multiset<int> retained;  // devices
  bool retain_fails = false;
};
Fake fake;
thread_local CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

CUresult retain(CUcontext* context, CUdevice device) {
  if (fake.retain_fails) return CUDA_ERROR_OUT_OF_MEMORY;
  fake.retained.insert(device);
  *context = context_of(device);
  return CUDA_SUCCESS;
}
CUresult exchange_mode(CUstreamCaptureMode* other) {
  std::swap(mode, *other);
  return CUDA_SUCCESS;
}
/// Needs a context, as most of the driver's functions do, and says whose it was.
CUresult alloc(CUdeviceptr* address, size_t) {
  if (stack.empty()) return CUDA_ERROR_INVALID_CONTEXT;
  *address = reinterpret_cast<CUdeviceptr>(stack.back()) - 1;
  return CUDA_SUCCESS;
}

class OnDeviceTest : public testing::Test {
 protected:
  void SetUp() override {
    fake = {};
    driver_ = &played::new_driver();
    driver_->primary_ctx_retain = retain;
    driver_->thread_exchange_capture_mode = exchange_mode;
    driver_->mem_alloc = alloc;
  }
  /// On which GPU the driver allocates in this thread; -1 where it refuses.
  int allocates_on() const {
    CUdeviceptr address = 0;
    return driver_->mem_alloc(&address, 1) == CUDA_SUCCESS ? static_cast<int>(address) : -1;
  }
  CudaDriver* driver_ = nullptr;
};

TEST_F(OnDeviceTest, GivesAThreadWithoutAContextOneForAsLongAsItLives) {
  for (int device : {0, 3})
    std::thread([&] {
      ASSERT_EQ(allocates_on(), -1);
      {
        const OnDevice on(*driver_, device);
        EXPECT_EQ(allocates_on(), device);
      }
      EXPECT_EQ(allocates_on(), -1) << "the thread had chosen no GPU";
    }).join();
}

TEST_F(OnDeviceTest, MakesNoContextOnAnotherGpu) {
  std::thread([&] { const OnDevice on(*driver_, 3); }).join();
  EXPECT_EQ(fake.retained, (std::multiset<int>{3}));
}

TEST_F(OnDeviceTest, GivesTheThreadItsOwnGpuBack) {
  std::thread([&] {
    played::push(context_of(1));
    {
      const OnDevice on(*driver_, 2);
      {
        const OnDevice same(*driver_, 2), other(*driver_, 0);
        EXPECT_EQ(allocates_on(), 0);
      }
      EXPECT_EQ(allocates_on(), 2);
    }
    EXPECT_EQ(allocates_on(), 1);
    EXPECT_EQ(stack.size(), 1u);
  }).join();
}

TEST_F(OnDeviceTest, RetainsAContextOnceWhateverTheThread) {
  for (int i = 0; i < 3; ++i) std::thread([&] { const OnDevice first(*driver_, 1), second(*driver_, 1); }).join();
  EXPECT_EQ(fake.retained, (std::multiset<int>{1}));
}

TEST_F(OnDeviceTest, AllowsWhatACaptureWouldRefuse) {
  {
    const OnDevice on(*driver_, 0);
    EXPECT_EQ(mode, CU_STREAM_CAPTURE_MODE_RELAXED);
  }
  EXPECT_EQ(mode, CU_STREAM_CAPTURE_MODE_GLOBAL);
}

TEST_F(OnDeviceTest, ChangesNothingWhereThereIsNoContextToBeHad) {
  played::push(context_of(1));
  fake.retain_fails = true;
  {
    const OnDevice on(*driver_, 2);
    EXPECT_EQ(mode, CU_STREAM_CAPTURE_MODE_GLOBAL);
  }
  EXPECT_EQ(allocates_on(), 1);
  fake.retain_fails = false;
  {
    const OnDevice on(*driver_, 2);
    EXPECT_EQ(allocates_on(), 2) << "it was asked for again";
  }
  stack.clear();
}

}  // namespace
}  // namespace twohop
