// What the library says about GPUs, whether it was built with CUDA or not, on machines with and without a driver.
#include "device/cuda_device.hpp"

#include <gtest/gtest.h>

namespace twohop {
namespace {

TEST(CudaDevice, SaysWhyThereIsNone) {
  const CudaStatus& status = cuda_status();
  EXPECT_EQ(status.devices == 0, !status.why.empty()) << status.devices << " devices, why: " << status.why;
  if (!status.built) {
    EXPECT_EQ(status.why, "twohop was built without CUDA");
  } else if (status.devices == 0) {
    EXPECT_NE(status.why, "twohop was built without CUDA");
  }
}

TEST(CudaDevice, CallsOrdinaryMemoryHostMemory) {
  int on_stack = 0;
  static int fixed = 0;
  const auto heap = std::make_unique<int>(0);
  for (const void* address : {static_cast<const void*>(&on_stack), static_cast<const void*>(&fixed),
                              static_cast<const void*>(heap.get()), static_cast<const void*>(nullptr)}) {
    auto info = memory_info(address);
    ASSERT_TRUE(info) << info.error().message;
    EXPECT_EQ(info->kind, MemoryKind::kHost) << address;
  }
}

TEST(CudaDevice, NamesEveryKindOfMemory) {
  for (MemoryKind kind : {MemoryKind::kHost, MemoryKind::kPinned, MemoryKind::kDevice, MemoryKind::kManaged})
    EXPECT_NE(std::string(memory_kind_name(kind)).find("memory"), std::string::npos);
}

}  // namespace
}  // namespace twohop
