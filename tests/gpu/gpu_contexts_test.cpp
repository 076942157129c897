// Which GPUs have a context of this process, and which threads? None but those that the program has chosen. A program
// of its own, since contexts stay. Exit code 77 where there is no GPU.
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstdio>

#include "thread_ranks.hpp"

namespace twohop::test {
namespace {

int devices() {
  int n = 0;
  return cudaGetDeviceCount(&n) == cudaSuccess ? n : 0;
}

template <class Function>
Function* of_driver(const char* name) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult status = cudaDriverEntryPointSymbolNotFound;
  EXPECT_EQ(cudaGetDriverEntryPointByVersion(name, &found, 12000, cudaEnableDefault, &status), cudaSuccess) << name;
  return reinterpret_cast<Function*>(found);
}
bool has_context(int device) {
  unsigned flags = 0;
  int active = -1;
  EXPECT_EQ(of_driver<decltype(cuDevicePrimaryCtxGetState)>("cuDevicePrimaryCtxGetState")(device, &flags, &active),
            CUDA_SUCCESS);
  return active != 0;
}
bool thread_has_context() {
  CUcontext context = nullptr;
  EXPECT_EQ(of_driver<decltype(cuCtxGetCurrent)>("cuCtxGetCurrent")(&context), CUDA_SUCCESS);
  return context != nullptr;
}

/// In the order of this file: the second makes contexts.
TEST(GpuContexts, AreNotMadeByCallsOnHostMemory) {
  run_ranks({.nranks = 2}, [](int, twohopComm_t comm) {
    std::vector<float> host(1000, 1);
    void* handle = nullptr;
    EXPECT_OK(twohopCommRegister(comm, host.data(), host.size() * sizeof(float), &handle), comm);
    EXPECT_OK(twohopAllReduce(host.data(), host.data(), 1000, twohopFloat32, twohopSum, comm, nullptr), comm);
    EXPECT_EQ(host[0], 2.0f);
    EXPECT_OK(twohopCommDeregister(comm, handle), comm);
    EXPECT_FALSE(thread_has_context());
  });
  for (int device = 0; device < devices(); ++device) EXPECT_FALSE(has_context(device)) << device;
}

/// One thread asks for two ranks on the last GPU; threads that have chosen none call and destroy.
TEST(GpuContexts, AreLeftToNoThreadAndNoOtherGpu) {
  const int last = devices() - 1;
  ASSERT_EQ(cudaSetDevice(last), cudaSuccess);
  constexpr int kRanks = 2;
  twohopUniqueId id{};
  ASSERT_EQ(twohopGetUniqueId(&id), twohopSuccess);
  twohopComm_t comms[kRanks] = {};
  ASSERT_EQ(twohopGroupStart(), twohopSuccess);
  for (int r = 0; r < kRanks; ++r) EXPECT_OK(twohopCommInitRank(&comms[r], kRanks, id, r), nullptr);
  EXPECT_OK(twohopGroupEnd(), nullptr);
  void* memory[kRanks] = {};
  cudaStream_t streams[kRanks] = {};
  for (int r = 0; r < kRanks; ++r) {
    EXPECT_OK(twohopMemAllocDevice(&memory[r], 4000), nullptr);
    ASSERT_EQ(cudaStreamCreateWithFlags(&streams[r], cudaStreamNonBlocking), cudaSuccess);
  }
  std::thread([&] {
    EXPECT_OK(twohopGroupStart(), nullptr);
    for (int r = 0; r < kRanks; ++r)
      EXPECT_OK(twohopAllReduce(memory[r], memory[r], 1000, twohopFloat32, twohopSum, comms[r],
                                reinterpret_cast<twohopStream_t>(streams[r])),
                comms[r]);
    EXPECT_OK(twohopGroupEnd(), nullptr);
    EXPECT_FALSE(thread_has_context());
  }).join();
  for (cudaStream_t s : streams) EXPECT_EQ(cudaStreamSynchronize(s), cudaSuccess);
  std::thread([&] {
    for (twohopComm_t comm : comms) EXPECT_OK(twohopCommDestroy(comm), nullptr);
    for (void* m : memory) EXPECT_OK(twohopMemFree(m), nullptr);
    EXPECT_FALSE(thread_has_context());
  }).join();
  for (int device = 0; device < last; ++device) EXPECT_FALSE(has_context(device)) << device;
}

}  // namespace
}  // namespace twohop::test

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (twohop::test::devices() == 0) {
    std::fputs("gpu_contexts_test: skipped: no GPU can be used here\n", stderr);
    return 77;
  }
  return RUN_ALL_TESTS();
}
