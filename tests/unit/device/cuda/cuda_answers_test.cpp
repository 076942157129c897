// What CUDA says of its GPUs and of an address, played: no question makes a context, and a driver that is of no use is
// told from none.
#include "device/cuda/cuda_answers.hpp"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "unit/device/cuda/played_contexts.hpp"

namespace twohop {
namespace {

using played::context_of;
using played::stack;

struct Memory {
  unsigned type = 0;
  bool managed = false;
  int device = 0;
  CUcontext context = nullptr;
  CUdeviceptr on_device = 0;
  unsigned long long id = 0;
  size_t bytes = 0;
};
std::map<CUdeviceptr, Memory> known;
CUresult answer = CUDA_SUCCESS, answer_on_allocations = CUDA_SUCCESS;
std::set<int> active;  // devices whose primary context is there
int retained = 0;

const auto kContext = reinterpret_cast<CUcontext>(0x100), kReset = reinterpret_cast<CUcontext>(0x200);

template <class T>
void put(void* place, T value) {
  *static_cast<T*>(place) = value;
}
void answer_one(CUpointer_attribute attribute, void* place, CUdeviceptr at, const Memory& m) {
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      return put(place, m.type);
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      return put(place, unsigned{m.managed});
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      return put(place, m.device);
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      return put(place, m.context);
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
      return put(place, m.id);
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      return put(place, m.bytes == 0 ? 0 : at / m.bytes * m.bytes);
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      return put(place, m.bytes);
    default:
      FAIL() << "attribute " << attribute;
  }
}
CUresult attributes(unsigned n, CUpointer_attribute* names, void** places, CUdeviceptr at) {
  if (stack.empty()) return CUDA_ERROR_INVALID_CONTEXT;
  if (stack.back() == kReset) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  if (answer != CUDA_SUCCESS) return answer;
  if (names[0] == CU_POINTER_ATTRIBUTE_BUFFER_ID && answer_on_allocations != CUDA_SUCCESS) return answer_on_allocations;
  const auto it = known.find(at);
  for (unsigned i = 0; i < n; ++i) answer_one(names[i], places[i], at, it == known.end() ? Memory{} : it->second);
  return CUDA_SUCCESS;
}
/// Of one attribute, which depends on the context.
CUresult attribute(void* place, CUpointer_attribute name, CUdeviceptr at) {
  EXPECT_EQ(name, CU_POINTER_ATTRIBUTE_DEVICE_POINTER);
  if (stack.empty() || stack.back() != known.at(at).context) return CUDA_ERROR_INVALID_VALUE;
  put(place, known.at(at).on_device);
  return CUDA_SUCCESS;
}
CUresult get_current(CUcontext* context) {
  *context = stack.empty() ? nullptr : stack.back();
  return CUDA_SUCCESS;
}
CUresult state(CUdevice device, unsigned* flags, int* is_active) {
  *flags = 0;
  *is_active = static_cast<int>(active.count(device));
  return CUDA_SUCCESS;
}
CUresult retain(CUcontext* context, CUdevice device) {
  EXPECT_EQ(active.count(device), 1u) << "a context was made on GPU " << device;
  ++retained;
  *context = context_of(device);
  return CUDA_SUCCESS;
}
CUresult exchange_mode(CUstreamCaptureMode*) {
  return CUDA_SUCCESS;
}
class MemoryInfoOf : public testing::Test {
 protected:
  void SetUp() override {
    known.clear();
    stack.clear();
    answer = answer_on_allocations = CUDA_SUCCESS;
    active = {3};
    retained = 0;
    driver_ = &played::new_driver();
    driver_->pointer_get_attributes = attributes;
    driver_->pointer_get_attribute = attribute;
    driver_->ctx_get_current = get_current;
    driver_->primary_ctx_get_state = state;
    driver_->primary_ctx_retain = retain;
    driver_->thread_exchange_capture_mode = exchange_mode;
  }
  MemoryInfo ask(CUdeviceptr at) const {
    const auto before = stack;
    auto info = memory_info(*driver_, 8, reinterpret_cast<const void*>(at));
    EXPECT_TRUE(info) << info.error().message;
    EXPECT_EQ(stack, before);
    return info ? *info : MemoryInfo{};
  }
  CudaDriver* driver_ = nullptr;
};

TEST_F(MemoryInfoOf, HostMemoryMakesNoContext) {
  for (std::set<int> in_use : {std::set<int>{}, {0}, {3, 5}}) {
    active = std::move(in_use);
    const MemoryInfo info = ask(0x5000);
    EXPECT_EQ(info.kind, MemoryKind::kHost);
    EXPECT_EQ(info.device, -1);
    EXPECT_EQ(retained, active.empty() ? 0 : 1);
    retained = 0;
  }
}

TEST_F(MemoryInfoOf, AThreadWithAContextIsAskedInIt) {
  known[0x5010] = {.type = CU_MEMORYTYPE_DEVICE, .device = 2, .context = kContext, .id = 77, .bytes = 0x1000};
  played::push(kContext);
  EXPECT_EQ(ask(0x5010).kind, MemoryKind::kDevice);
  EXPECT_EQ(ask(0x6000).kind, MemoryKind::kHost);
  EXPECT_EQ(retained, 0);
}

TEST_F(MemoryInfoOf, AContextThatWasResetIsAsGoodAsNone) {
  played::push(kReset);
  known[0x5010] = {.type = CU_MEMORYTYPE_DEVICE, .device = 3, .context = kContext};
  EXPECT_EQ(ask(0x5010).kind, MemoryKind::kDevice);
  active.clear();
  EXPECT_EQ(ask(0x5010).kind, MemoryKind::kHost);
}

TEST_F(MemoryInfoOf, DeviceMemoryTellsItsAllocation) {
  known[0x5010] = {.type = CU_MEMORYTYPE_DEVICE, .device = 2, .context = kContext, .id = 77, .bytes = 0x1000};
  const MemoryInfo info = ask(0x5010);
  EXPECT_EQ(info.kind, MemoryKind::kDevice);
  EXPECT_EQ(info.device, 2);
  EXPECT_EQ(info.allocation_id, 77u);
  EXPECT_EQ(info.base, 0x5000u);
  EXPECT_EQ(info.bytes, 0x1000u);
}

TEST_F(MemoryInfoOf, DeviceMemoryThatIsNotNumberedIsDeviceMemory) {
  known[0x5010] = {.type = CU_MEMORYTYPE_DEVICE, .device = 2, .id = 77, .bytes = 0x1000};
  answer_on_allocations = CUDA_ERROR_NOT_SUPPORTED;
  const MemoryInfo info = ask(0x5010);
  EXPECT_EQ(info.kind, MemoryKind::kDevice);
  EXPECT_EQ(info.device, 2);
  EXPECT_EQ(info.allocation_id, 0u);
  EXPECT_EQ(info.bytes, 0u);
}

TEST_F(MemoryInfoOf, ManagedMemoryIsNeitherHostNorDeviceMemory) {
  for (unsigned type : {CU_MEMORYTYPE_HOST, CU_MEMORYTYPE_DEVICE}) {
    known[0x5000] = {.type = type, .managed = true, .device = 1};
    const MemoryInfo info = ask(0x5000);
    EXPECT_EQ(info.kind, MemoryKind::kManaged);
    EXPECT_EQ(info.device, 1);
  }
}

TEST_F(MemoryInfoOf, PinnedMemoryIsTheHostsWhereTheGpuSeesItElsewhere) {
  known[0x5000] = {.type = CU_MEMORYTYPE_HOST, .context = kContext, .on_device = 0x5000};
  EXPECT_EQ(ask(0x5000).kind, MemoryKind::kPinned);
  EXPECT_EQ(ask(0x5000).device, -1);
  known[0x5000].on_device = 0x9000;
  EXPECT_EQ(ask(0x5000).kind, MemoryKind::kHost);
  known[0x5000].context = nullptr;  // of no context: one address everywhere
  EXPECT_EQ(ask(0x5000).kind, MemoryKind::kPinned);
}

TEST_F(MemoryInfoOf, AnAddressIsAnErrorWhereTheDriverRefuses) {
  answer = CUDA_ERROR_DEINITIALIZED;
  auto info = memory_info(*driver_, 8, &known);
  ASSERT_FALSE(info);
  EXPECT_EQ(info.error().code, twohopUnhandledCudaError);
}

TEST(CudaStatusOf, ADriverThatIsTooOldIsBrokenAndOneThatIsMissingIsNot) {
  const CudaStatus old = cuda_status_of(cudaErrorInsufficientDriver, 0, 12020);
  EXPECT_TRUE(old.broken);
  EXPECT_EQ(old.devices, 0);
  EXPECT_NE(old.why.find("the driver is for CUDA 12.2, and twohop was built with CUDA "), std::string::npos) << old.why;
  const CudaStatus none = cuda_status_of(cudaErrorInsufficientDriver, 0, 0);
  EXPECT_FALSE(none.broken);
  EXPECT_NE(none.why.find("there is no driver"), std::string::npos) << none.why;
}

TEST(CudaStatusOf, OtherErrorsOfADriverAreBrokenUnlessItSaysThatThereIsNoGpu) {
  for (cudaError_t e : {cudaErrorSystemNotReady, cudaErrorSystemDriverMismatch, cudaErrorInitializationError,
                        cudaErrorCompatNotSupportedOnDevice, cudaErrorUnknown}) {
    EXPECT_TRUE(cuda_status_of(e, 0, 13000).broken) << e;
    EXPECT_NE(cuda_status_of(e, 0, 13000).why.find(cudaGetErrorName(e)), std::string::npos);
  }
  for (cudaError_t e : {cudaErrorNoDevice, cudaErrorStubLibrary}) {
    EXPECT_FALSE(cuda_status_of(e, 0, 13000).broken) << e;
    EXPECT_FALSE(cuda_status_of(e, 0, 13000).why.empty());
  }
}

TEST(CudaStatusOf, GpusAreCounted) {
  const CudaStatus two = cuda_status_of(cudaSuccess, 2, 13000);
  EXPECT_TRUE(two.built);
  EXPECT_EQ(two.devices, 2);
  EXPECT_EQ(two.why, "");
  const CudaStatus none = cuda_status_of(cudaSuccess, 0, 13000);
  EXPECT_FALSE(none.why.empty());
  EXPECT_FALSE(none.broken);
}

}  // namespace
}  // namespace twohop
