// Device segments over a driver played by memfds: what is shared is really shared, hostile tickets are refused, and no
// failure of the driver leaves anything behind.
#include "device/cuda/device_segment.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <iterator>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "device/cuda/segment_ticket.hpp"

namespace twohop {
namespace {

/// The driver's state. Handles are file descriptors, addresses those of the process.
struct Fake {
  bool has_file_descriptors = true, memory_may_be_for_rdma = true;
  bool for_rdma = false;         // the memory made last
  int calls = 0, fails_at = -1;  // the number of the call that fails
  std::set<CUmemGenericAllocationHandle> handles;
  std::map<CUdeviceptr, size_t> reserved, mapped, ipc_open;
  std::map<CUdeviceptr, int> allocated;  // cuMemAlloc: its memfd
  std::set<int> allowed;                 // devices
  std::set<int> peers_enabled;           // whose memory others use
  std::map<CUstream, std::vector<std::function<void()>>> enqueued;
  bool clean() const {
    return handles.empty() && reserved.empty() && mapped.empty() && ipc_open.empty() && allocated.empty();
  }
};
Fake fake;

constexpr size_t kGranularity = 65536;
const auto side_stream = reinterpret_cast<CUstream>(uintptr_t{7});  // never looked into

CUresult step() {
  return fake.calls++ == fake.fails_at ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}
int memory_of(size_t bytes) {
  const int fd = memfd_create("fake-gpu", MFD_CLOEXEC);
  EXPECT_EQ(ftruncate(fd, static_cast<off_t>(bytes)), 0);
  return fd;
}
void* at(CUdeviceptr address) {
  return reinterpret_cast<void*>(address);
}
CUdeviceptr map_shared(int fd, size_t bytes) {
  return reinterpret_cast<CUdeviceptr>(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
}

CUresult attribute(int* value, CUdevice_attribute which, CUdevice) {
  *value = which == CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED ? fake.memory_may_be_for_rdma
                                                                                : fake.has_file_descriptors;
  return CUDA_SUCCESS;
}
CUresult granularity(size_t* bytes, const CUmemAllocationProp*, CUmemAllocationGranularity_flags) {
  *bytes = kGranularity;
  return step();
}
CUresult create(CUmemGenericAllocationHandle* handle, size_t bytes, const CUmemAllocationProp* p, unsigned long long) {
  if (CUresult r = step(); r != CUDA_SUCCESS) return r;
  if (p->allocFlags.gpuDirectRDMACapable && !fake.memory_may_be_for_rdma) return CUDA_ERROR_NOT_SUPPORTED;
  fake.for_rdma = p->allocFlags.gpuDirectRDMACapable != 0;
  *handle = static_cast<CUmemGenericAllocationHandle>(memory_of(bytes));
  fake.handles.insert(*handle);
  return CUDA_SUCCESS;
}
CUresult release(CUmemGenericAllocationHandle handle) {
  close(static_cast<int>(handle));
  return fake.handles.erase(handle) == 1 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
CUresult export_handle(void* fd, CUmemGenericAllocationHandle handle, CUmemAllocationHandleType, unsigned long long) {
  if (CUresult r = step(); r != CUDA_SUCCESS) return r;
  *static_cast<int*>(fd) = dup(static_cast<int>(handle));
  return CUDA_SUCCESS;
}
CUresult import_handle(CUmemGenericAllocationHandle* handle, void* os_handle, CUmemAllocationHandleType) {
  if (CUresult r = step(); r != CUDA_SUCCESS) return r;
  *handle = static_cast<CUmemGenericAllocationHandle>(dup(static_cast<int>(reinterpret_cast<intptr_t>(os_handle))));
  fake.handles.insert(*handle);
  return CUDA_SUCCESS;
}
CUresult reserve(CUdeviceptr* address, size_t bytes, size_t, CUdeviceptr, unsigned long long) {
  if (CUresult r = step(); r != CUDA_SUCCESS) return r;
  *address = reinterpret_cast<CUdeviceptr>(mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  fake.reserved[*address] = bytes;
  return CUDA_SUCCESS;
}
CUresult free_addresses(CUdeviceptr address, size_t bytes) {
  EXPECT_EQ(fake.reserved[address], bytes);
  fake.reserved.erase(address);
  munmap(at(address), bytes);
  return CUDA_SUCCESS;
}
CUresult map_memory(CUdeviceptr address, size_t bytes, size_t, CUmemGenericAllocationHandle handle,
                    unsigned long long) {
  if (CUresult r = step(); r != CUDA_SUCCESS) return r;
  mmap(at(address), bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, static_cast<int>(handle), 0);
  fake.mapped[address] = bytes;
  return CUDA_SUCCESS;
}
CUresult unmap(CUdeviceptr address, size_t bytes) {
  EXPECT_EQ(fake.mapped[address], bytes);
  fake.mapped.erase(address);
  return CUDA_SUCCESS;
}
CUresult set_access(CUdeviceptr address, size_t bytes, const CUmemAccessDesc* access, size_t count) {
  if (CUresult r = step(); r != CUDA_SUCCESS) return r;
  for (size_t i = 0; i < count; ++i) fake.allowed.insert(access[i].location.id);
  mprotect(at(address), bytes, PROT_READ | PROT_WRITE);
  return CUDA_SUCCESS;
}
CUresult alloc(CUdeviceptr* address, size_t bytes) {
  if (CUresult r = step(); r != CUDA_SUCCESS) return r;
  const int fd = memory_of(bytes);
  *address = map_shared(fd, bytes);
  fake.allocated[*address] = fd;
  return CUDA_SUCCESS;
}
CUresult free_memory(CUdeviceptr address) {
  close(fake.allocated.at(address));
  fake.allocated.erase(address);
  return CUDA_SUCCESS;
}
/// Done when the stream is waited for, and no earlier.
CUresult clear(CUdeviceptr address, unsigned char value, size_t bytes, CUstream stream) {
  if (CUresult r = step(); r != CUDA_SUCCESS) return r;
  std::memset(at(address), 0x5a, bytes);
  fake.enqueued[stream].push_back([=] { std::memset(at(address), value, bytes); });
  return CUDA_SUCCESS;
}
CUresult wait_for(CUstream stream) {
  for (const auto& work : std::exchange(fake.enqueued[stream], {})) work();
  return step();
}
CUresult get_ipc(CUipcMemHandle* handle, CUdeviceptr address) {
  if (CUresult r = step(); r != CUDA_SUCCESS) return r;
  std::memcpy(handle->reserved, &fake.allocated.at(address), sizeof(int));
  return CUDA_SUCCESS;
}
CUresult open_ipc(CUdeviceptr* address, CUipcMemHandle handle, unsigned) {
  if (CUresult r = step(); r != CUDA_SUCCESS) return r;
  int fd;
  std::memcpy(&fd, handle.reserved, sizeof fd);
  *address = map_shared(fd, kGranularity);
  fake.ipc_open[*address] = kGranularity;
  return CUDA_SUCCESS;
}
CUresult close_ipc(CUdeviceptr address) {
  munmap(at(address), fake.ipc_open.at(address));
  fake.ipc_open.erase(address);
  return CUDA_SUCCESS;
}

CUresult address_range(CUdeviceptr* base, size_t* bytes, CUdeviceptr address) {
  const auto it = std::prev(fake.allocated.upper_bound(address));
  *base = it->first;
  *bytes = kGranularity;
  return step();
}
CUresult pointer_attribute(void* value, CUpointer_attribute, CUdeviceptr) {
  *static_cast<int*>(value) = 0;
  return step();
}
CUresult retain(CUcontext* context, CUdevice device) {
  *context = reinterpret_cast<CUcontext>(static_cast<intptr_t>(device + 1));
  return CUDA_SUCCESS;
}
CUresult release_context(CUdevice) {
  return CUDA_SUCCESS;
}
CUresult enable_peer(CUcontext context, unsigned) {
  if (CUresult r = step(); r != CUDA_SUCCESS) return r;
  const int device = static_cast<int>(reinterpret_cast<intptr_t>(context)) - 1;
  return fake.peers_enabled.insert(device).second ? CUDA_SUCCESS : CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
}

CudaDriver fake_driver() {
  CudaDriver d;
  d.mem_get_address_range = address_range;
  d.pointer_get_attribute = pointer_attribute;
  d.primary_ctx_retain = retain;
  d.primary_ctx_release = release_context;
  d.ctx_enable_peer_access = enable_peer;
  d.device_get_attribute = attribute;
  d.mem_granularity = granularity;
  d.mem_create = create;
  d.mem_release = release;
  d.mem_export = export_handle;
  d.mem_import = import_handle;
  d.mem_address_reserve = reserve;
  d.mem_address_free = free_addresses;
  d.mem_map = map_memory;
  d.mem_unmap = unmap;
  d.mem_set_access = set_access;
  d.mem_alloc = alloc;
  d.mem_free = free_memory;
  d.memset_d8_async = clear;
  d.stream_synchronize = wait_for;
  d.ipc_get_mem_handle = get_ipc;
  d.ipc_open_mem_handle = open_ipc;
  d.ipc_close_mem_handle = close_ipc;
  return d;
}

/// The same fds as another process would have made them: nothing in this one knows the segment.
void pretend_from_another_process(std::vector<Fd>& fds) {
  auto ticket = read_ticket(fds[0].get());
  ASSERT_TRUE(ticket) << ticket.error().message;
  ticket->process ^= 1;
  auto changed = write_ticket(*ticket);
  ASSERT_TRUE(changed);
  fds[0] = std::move(*changed);
}

class DeviceSegmentOn : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    fake = {};
    fake.has_file_descriptors = GetParam();
  }
  void TearDown() override { EXPECT_TRUE(fake.clean()) << "something was left behind"; }
  const CudaDriver driver_ = fake_driver();
};

TEST_P(DeviceSegmentOn, IsTheSameMemoryForWhoMapsIt) {
  auto mine = DeviceSegment::create(driver_, 0, 5000, side_stream);
  ASSERT_TRUE(mine) << mine.error().message;
  EXPECT_EQ(mine->kind(), GetParam() ? SegmentKind::kFileDescriptor : SegmentKind::kIpcHandle);
  EXPECT_GE(mine->size(), 5000u);
  EXPECT_EQ(mine->data()[4999], std::byte{0});
  auto fds = mine->export_fds();
  ASSERT_TRUE(fds) << fds.error().message;
  pretend_from_another_process(*fds);
  auto theirs = DeviceSegment::map(driver_, 3, std::move(*fds), 5000);
  ASSERT_TRUE(theirs) << theirs.error().message;
  EXPECT_NE(mine->data(), theirs->data());
  theirs->data()[4999] = std::byte{7};
  EXPECT_EQ(mine->data()[4999], std::byte{7});
  if (GetParam()) {
    EXPECT_EQ(fake.allowed, (std::set<int>{0, 3}));
  }
}

/// The first to use it may be a kernel or a copy of any stream.
TEST_P(DeviceSegmentOn, IsZeroBeforeAnybodyCanUseIt) {
  auto mine = DeviceSegment::create(driver_, 0, 5000, side_stream);
  ASSERT_TRUE(mine) << mine.error().message;
  for (const auto& [stream, work] : fake.enqueued) {
    EXPECT_EQ(stream, side_stream) << "the default stream waits for whatever the program has enqueued there";
    EXPECT_TRUE(work.empty()) << "it would be cleared under those who use it";
  }
  for (size_t i = 0; i < mine->size(); ++i) ASSERT_EQ(mine->data()[i], std::byte{0}) << i;
}

TEST_P(DeviceSegmentOn, IsForRdmaWhereTheDriverHasSuchMemory) {
  for (const bool offered : {true, false}) {
    fake.memory_may_be_for_rdma = offered;
    auto mine = DeviceSegment::create(driver_, 0, 100, side_stream);
    ASSERT_TRUE(mine) << mine.error().message;
    EXPECT_EQ(fake.for_rdma, GetParam() && offered);
  }
}

TEST_P(DeviceSegmentOn, IsMappedOnceInAProcess) {
  auto mine = DeviceSegment::create(driver_, 0, 100, side_stream);
  ASSERT_TRUE(mine) << mine.error().message;
  auto fds = mine->export_fds();
  ASSERT_TRUE(fds);
  auto again = DeviceSegment::map(driver_, 1, std::move(*fds), 100);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(mine->data(), again->data());
  *mine = DeviceSegment();
  again->data()[99] = std::byte{1};  // still there
  if (GetParam()) {
    EXPECT_EQ(fake.allowed, (std::set<int>{0, 1}));
  } else {
    EXPECT_EQ(fake.peers_enabled, (std::set<int>{0}));
  }
}

/// Of a process that ends, too: the descriptors close then.
TEST_P(DeviceSegmentOn, IsNotFreedWhileOthersMapIt) {
  auto mine = DeviceSegment::create(driver_, 0, 100, side_stream);
  ASSERT_TRUE(mine) << mine.error().message;
  auto fds = mine->export_fds();
  ASSERT_TRUE(fds) << fds.error().message;
  pretend_from_another_process(*fds);
  auto theirs = DeviceSegment::map(driver_, 0, std::move(*fds), 100);
  ASSERT_TRUE(theirs) << theirs.error().message;
  *mine = DeviceSegment();
  theirs->data()[99] = std::byte{1};
  EXPECT_EQ(fake.allocated.size(), GetParam() ? 0u : 1u) << "behind a handle the owner has to wait";
  *theirs = DeviceSegment();
  auto next = DeviceSegment::create(driver_, 0, 100, side_stream);  // whoever comes by frees it
  ASSERT_TRUE(next);
  EXPECT_EQ(fake.allocated.size(), GetParam() ? 0u : 1u) << "its own";
}

TEST_P(DeviceSegmentOn, OfAnotherProcessIsForOneGpuWhereAHandleNamesIt) {
  auto mine = DeviceSegment::create(driver_, 0, 100, side_stream);
  ASSERT_TRUE(mine) << mine.error().message;
  const auto map_for = [&](int device) {
    auto fds = mine->export_fds();
    EXPECT_TRUE(fds);
    pretend_from_another_process(*fds);
    return DeviceSegment::map(driver_, device, std::move(*fds), 100);
  };
  auto first = map_for(1), again = map_for(1), other = map_for(2);
  ASSERT_TRUE(first && again);
  EXPECT_EQ(first->data(), again->data());
  EXPECT_EQ(other.has_value(), GetParam());
}

TEST_P(DeviceSegmentOn, SharesWhatIsThereAlready) {
  auto mine = DeviceSegment::create(driver_, 0, 100, side_stream);
  ASSERT_TRUE(mine) << mine.error().message;
  auto same = DeviceSegment::share(driver_, mine->data() + 50);
  ASSERT_TRUE(same) << same.error().message;
  EXPECT_EQ(same->data(), mine->data());
  EXPECT_EQ(same->kind(), mine->kind());

  CUdeviceptr users = 0;  // as of cudaMalloc
  ASSERT_EQ(alloc(&users, kGranularity), CUDA_SUCCESS);
  {
    auto shared = DeviceSegment::share(driver_, at(users + 100));
    ASSERT_TRUE(shared) << shared.error().message;
    EXPECT_EQ(shared->data(), at(users));
    auto fds = shared->export_fds();
    ASSERT_TRUE(fds) << fds.error().message;
    auto here = DeviceSegment::map(driver_, 1, std::move(*fds), 100);  // a rank that is another thread
    ASSERT_TRUE(here) << here.error().message;
    EXPECT_EQ(here->data(), at(users));
    fds = shared->export_fds();
    pretend_from_another_process(*fds);
    auto theirs = DeviceSegment::map(driver_, 1, std::move(*fds), 100);
    ASSERT_TRUE(theirs) << theirs.error().message;
    theirs->data()[7] = std::byte{3};
    EXPECT_EQ(here->data()[7], std::byte{3});
  }
  EXPECT_EQ(fake.allocated.count(users), 1u) << "it is the user's";
  EXPECT_EQ(free_memory(users), CUDA_SUCCESS);
}

TEST_P(DeviceSegmentOn, LeavesNothingBehindWhenTheDriverFails) {
  int failures = 0;
  for (int n = 0; n < 20; ++n) {
    fake.calls = 0;
    fake.fails_at = n;
    auto mine = DeviceSegment::create(driver_, 0, 100, side_stream);
    if (!mine) {
      ++failures;
      EXPECT_EQ(mine.error().code, twohopUnhandledCudaError);
      EXPECT_TRUE(fake.clean()) << "create, call " << n;
      continue;
    }
    auto fds = mine->export_fds();
    if (!fds) {
      ++failures;
      continue;
    }
    pretend_from_another_process(*fds);
    auto theirs = DeviceSegment::map(driver_, 1, std::move(*fds), 100);
    failures += !theirs;
  }
  EXPECT_EQ(failures, GetParam() ? 12 : 5) << "every call of the driver was to fail once";
}

TEST_P(DeviceSegmentOn, RefusesWhatItDoesNotUnderstand) {
  auto mine = DeviceSegment::create(driver_, 0, 100, side_stream);
  ASSERT_TRUE(mine) << mine.error().message;
  EXPECT_EQ(DeviceSegment::map(driver_, 0, {}, 100).error().code, twohopRemoteError);

  auto too_small = mine->export_fds();
  ASSERT_TRUE(too_small);
  auto mapped = DeviceSegment::map(driver_, 0, std::move(*too_small), mine->size() + 1);
  ASSERT_FALSE(mapped);
  EXPECT_NE(mapped.error().message.find("TWOHOP_BUFFSIZE"), std::string::npos) << mapped.error().message;

  const auto refused = [&](auto change) {
    auto fds = mine->export_fds();
    ASSERT_TRUE(fds);
    SegmentTicket ticket = *read_ticket((*fds)[0].get());
    ticket.process ^= 1;
    change(ticket, *fds);
    auto changed = write_ticket(ticket);
    (*fds)[0] = std::move(*changed);
    auto other = DeviceSegment::map(driver_, 0, std::move(*fds), 100);
    ASSERT_FALSE(other);
    EXPECT_EQ(other.error().code, twohopRemoteError) << other.error().message;
  };
  refused([](SegmentTicket& t, auto&) { t.version = 2; });
  refused([](SegmentTicket& t, auto&) { t.kind = 9; });
  refused([](SegmentTicket&, auto& fds) { fds.pop_back(); });

  auto fds = mine->export_fds();
  ASSERT_TRUE(fds);
  ASSERT_EQ(ftruncate((*fds)[0].get(), 3), 0);
  EXPECT_FALSE(DeviceSegment::map(driver_, 0, std::move(*fds), 100));
}

INSTANTIATE_TEST_SUITE_P(Kinds, DeviceSegmentOn, testing::Bool(), [](const auto& info) {
  return info.param ? std::string("file_descriptor") : std::string("ipc_handle");
});

}  // namespace
}  // namespace twohop
