// Calls on the memory of a real GPU, through the C API: ranks are threads, on one GPU or on as many as there are. Exit
// code 77, and a line that says so, where there is none: nothing was tested then.
#include <cuda_runtime_api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <future>
#include <random>

#include "thread_ranks.hpp"

namespace twohop::test {
namespace {

#define ASSERT_CUDA(call) ASSERT_EQ((call), cudaSuccess)

int devices() {
  int n = 0;
  return cudaGetDeviceCount(&n) == cudaSuccess ? n : 0;
}

/// Bytes on the current GPU, with as many on the host.
class DeviceBuffer {
 public:
  explicit DeviceBuffer(size_t bytes) : host_(bytes) { EXPECT_EQ(cudaMalloc(&device_, bytes), cudaSuccess); }
  /// Uses the first `bytes` from now on.
  void use(size_t bytes) { host_.resize(bytes); }
  ~DeviceBuffer() { (void)cudaFree(device_); }
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;
  void* get() const { return device_; }
  std::vector<unsigned char>& host() { return host_; }
  void to_device(cudaStream_t stream) {
    EXPECT_EQ(cudaMemcpyAsync(device_, host_.data(), host_.size(), cudaMemcpyHostToDevice, stream), cudaSuccess);
  }
  /// After all of the stream: a copy to memory that is not pinned may wait in the driver for a kernel before it, which
  /// waits for one that another thread could not launch then.
  void to_host(cudaStream_t stream) {
    EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    EXPECT_EQ(cudaMemcpyAsync(host_.data(), device_, host_.size(), cudaMemcpyDeviceToHost, stream), cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  }

 private:
  void* device_ = nullptr;
  std::vector<unsigned char> host_;
};

class Stream {
 public:
  Stream() { EXPECT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), cudaSuccess); }
  ~Stream() { (void)cudaStreamDestroy(stream_); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  cudaStream_t get() const { return stream_; }
  twohopStream_t twohop() const { return reinterpret_cast<twohopStream_t>(stream_); }

 private:
  cudaStream_t stream_ = nullptr;
};

/// Each rank's thread uses a GPU before it joins.
void run_gpu_ranks(const Ranks& ranks, const std::function<void(int, twohopComm_t)>& body) {
  twohopUniqueId id;
  ASSERT_EQ(twohopGetUniqueId(&id), twohopSuccess) << twohopGetLastError(nullptr);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks.nranks; ++rank)
    threads.emplace_back([&, rank] {
      ASSERT_CUDA(cudaSetDevice(rank % devices()));
      twohopConfig_t config = config_of(ranks);
      twohopComm_t comm = nullptr;
      const twohopResult_t made = twohopCommInitRankConfig(&comm, ranks.nranks, id, rank, &config);
      ASSERT_EQ(made, twohopSuccess) << why(nullptr, made);
      body(rank, comm);
      EXPECT_OK(twohopCommDestroy(comm), nullptr);
    });
  for (auto& thread : threads) thread.join();
}

/// Ranks that share a GPU allocate before one of them launches, and free after all of theirs have ended: both may wait
/// for the kernel that waits for them, and meanwhile hold up the thread that it needs.
void all_have_allocated(twohopComm_t comm) {
  EXPECT_OK(twohopBarrier(comm, nullptr), comm);
}
void all_have_ended(twohopComm_t comm) {
  EXPECT_OK(twohopBarrier(comm, nullptr), comm);
}

constexpr size_t kTypeBytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};

class OnGpu : public testing::TestWithParam<Ranks> {};

/// The GPU gives the host's bits, whatever the input.
TEST_P(OnGpu, EveryTypeAndOperationGivesTheBitsOfTheHost) {
  run_gpu_ranks(GetParam(), [&](int rank, twohopComm_t comm) {
    Stream stream;
    std::mt19937 random(static_cast<unsigned>(rank) + 1);
    constexpr size_t kCounts[] = {1, 1023, 65536};
    DeviceBuffer send(kCounts[2] * 8), recv(kCounts[2] * 8);
    all_have_allocated(comm);
    for (int type = 0; type < TWOHOP_NUM_DATATYPES; ++type)
      for (int op = 0; op < TWOHOP_NUM_OPS; ++op)
        for (const size_t count : kCounts) {
          const size_t bytes = count * kTypeBytes[type];
          send.use(bytes);
          recv.use(bytes);
          for (auto& b : send.host()) b = static_cast<unsigned char>(random());
          std::vector<unsigned char> on_host(bytes);
          const auto t = static_cast<twohopDataType_t>(type);
          const auto o = static_cast<twohopRedOp_t>(op);
          EXPECT_OK(twohopAllReduce(send.host().data(), on_host.data(), count, t, o, comm, nullptr), comm);
          send.to_device(stream.get());
          EXPECT_OK(twohopAllReduce(send.get(), recv.get(), count, t, o, comm, stream.twohop()), comm);
          recv.to_host(stream.get());
          ASSERT_EQ(recv.host(), on_host) << "type " << type << " op " << op << " count " << count;
        }
    all_have_ended(comm);
  });
}

TEST_P(OnGpu, ACapturedCallIsReplayed) {
  run_gpu_ranks(GetParam(), [&](int rank, twohopComm_t comm) {
    Stream stream;
    constexpr size_t kCount = 10000;
    DeviceBuffer buffer(kCount * sizeof(float)), result(kCount * sizeof(float));
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
    ASSERT_CUDA(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeThreadLocal));
    EXPECT_OK(twohopAllReduce(buffer.get(), result.get(), kCount, twohopFloat32, twohopSum, comm, stream.twohop()),
              comm);
    ASSERT_CUDA(cudaStreamEndCapture(stream.get(), &graph));
    ASSERT_CUDA(cudaGraphInstantiate(&executable, graph, 0));
    ASSERT_CUDA(cudaGraphUpload(executable, stream.get()));
    ASSERT_CUDA(cudaStreamSynchronize(stream.get()));
    all_have_allocated(comm);
    const int n = GetParam().nranks;
    for (int replay = 1; replay <= 5; ++replay) {
      std::vector<float> values(kCount, static_cast<float>((rank + 1) * replay));
      std::memcpy(buffer.host().data(), values.data(), values.size() * sizeof(float));
      buffer.to_device(stream.get());
      ASSERT_CUDA(cudaGraphLaunch(executable, stream.get()));
      result.to_host(stream.get());
      std::memcpy(values.data(), result.host().data(), values.size() * sizeof(float));
      for (const float x : values) ASSERT_EQ(x, static_cast<float>(n * (n + 1) / 2 * replay));
    }
    all_have_ended(comm);
    (void)cudaGraphExecDestroy(executable);
    (void)cudaGraphDestroy(graph);
  });
}

/// cudaStreamPerThread is the same handle for all threads, and a stream of each. The last rank comes when the others'
/// calls have all been launched.
TEST_P(OnGpu, CallsOfTwoThreadsOnTheirOwnStreamsAreOrdered) {
  std::atomic<int> launched{0};
  run_gpu_ranks(GetParam(), [&](int rank, twohopComm_t comm) {
    constexpr size_t kCount = 100000;
    DeviceBuffer one(kCount * sizeof(float)), two(kCount * sizeof(float));
    std::vector<float> values(kCount, static_cast<float>(rank + 1));
    for (DeviceBuffer* b : {&one, &two}) {
      std::memcpy(b->host().data(), values.data(), kCount * sizeof(float));
      b->to_device(cudaStreamPerThread);
    }
    ASSERT_CUDA(cudaStreamSynchronize(cudaStreamPerThread));
    const auto call = [&](DeviceBuffer& b) {
      EXPECT_OK(twohopAllReduce(b.get(), b.get(), kCount, twohopFloat32, twohopSum, comm,
                                reinterpret_cast<twohopStream_t>(cudaStreamPerThread)),
                comm);
    };
    std::promise<void> first_is_launched, all_are_idle;
    std::thread other([&] {
      EXPECT_EQ(cudaSetDevice(rank % devices()), cudaSuccess);
      EXPECT_EQ(cudaStreamSynchronize(cudaStreamPerThread), cudaSuccess);  // it is there
      all_are_idle.set_value();
      first_is_launched.get_future().wait();
      call(two);
      ++launched;
      two.to_host(cudaStreamPerThread);
    });
    all_are_idle.get_future().wait();
    all_have_allocated(comm);
    if (rank == GetParam().nranks - 1)
      while (launched < GetParam().nranks - 1) std::this_thread::yield();
    call(one);
    first_is_launched.set_value();
    one.to_host(cudaStreamPerThread);
    other.join();
    const int n = GetParam().nranks;
    for (DeviceBuffer* b : {&one, &two}) {
      std::memcpy(values.data(), b->host().data(), kCount * sizeof(float));
      for (const float x : values) ASSERT_EQ(x, static_cast<float>(n * (n + 1) / 2));
    }
    all_have_ended(comm);
  });
}

TEST_P(OnGpu, AnAbortEndsAKernelThatWaits) {
  if (GetParam().nranks == 1) GTEST_SKIP() << "a rank alone waits for nobody";
  std::atomic<bool> launched{false};
  run_gpu_ranks(GetParam(), [&](int rank, twohopComm_t comm) {
    Stream stream;
    DeviceBuffer buffer(4096);
    all_have_allocated(comm);
    if (rank == 0) {
      EXPECT_OK(twohopAllReduce(buffer.get(), buffer.get(), 1024, twohopFloat32, twohopSum, comm, stream.twohop()),
                comm);
      launched = true;
    }
    while (!launched) std::this_thread::yield();
    if (rank == 1) EXPECT_OK(twohopCommAbort(comm), comm);
    twohopResult_t error = twohopSuccess;
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (error == twohopSuccess && std::chrono::steady_clock::now() < until)
      EXPECT_OK(twohopCommGetAsyncError(comm, &error), comm);
    EXPECT_EQ(error, twohopAborted);
    ASSERT_CUDA(cudaStreamSynchronize(stream.get()));  // the kernel has left
  });
}

/// Memory of cudaMalloc and of twohopMemAllocDevice; all ranks register together.
TEST_P(OnGpu, RegisteredMemoryGivesTheSameSums) {
  run_gpu_ranks(GetParam(), [&](int rank, twohopComm_t comm) {
    Stream stream;
    constexpr size_t kCount = 300000;
    DeviceBuffer users(kCount * sizeof(float)), result(kCount * sizeof(float));
    void *ours = nullptr, *handles[2] = {};
    EXPECT_OK(twohopMemAllocDevice(&ours, kCount * sizeof(float)), nullptr);
    EXPECT_OK(twohopCommRegister(comm, users.get(), kCount * sizeof(float), &handles[0]), comm);
    EXPECT_OK(twohopCommRegister(comm, ours, kCount * sizeof(float), &handles[1]), comm);
    std::vector<float> values(kCount);
    for (size_t i = 0; i < kCount; ++i) values[i] = static_cast<float>(rank + 1) + static_cast<float>(i % 7);
    std::memcpy(users.host().data(), values.data(), kCount * sizeof(float));
    users.to_device(stream.get());
    ASSERT_CUDA(cudaMemcpyAsync(ours, users.get(), kCount * sizeof(float), cudaMemcpyDeviceToDevice, stream.get()));
    all_have_allocated(comm);
    const int n = GetParam().nranks;
    for (void* send : {users.get(), ours}) {
      EXPECT_OK(twohopAllReduce(send, result.get(), kCount, twohopFloat32, twohopSum, comm, stream.twohop()), comm);
      result.to_host(stream.get());
      std::memcpy(values.data(), result.host().data(), kCount * sizeof(float));
      for (size_t i = 0; i < kCount; ++i)
        ASSERT_EQ(values[i], static_cast<float>(n * (n + 1) / 2) + static_cast<float>(n) * static_cast<float>(i % 7));
    }
    all_have_ended(comm);
    for (void* handle : handles) EXPECT_OK(twohopCommDeregister(comm, handle), comm);
    EXPECT_OK(twohopMemFree(ours), nullptr);
  });
}

/// It is cleared at once, and not when what the program has put into the default stream has ended: over the caller's
/// data.
TEST(OnGpus, NewMemoryIsZeroWhateverTheDefaultStreamWaitsFor) {
  ASSERT_CUDA(cudaSetDevice(0));
  ASSERT_CUDA(cudaFree(nullptr));
  Stream stream;
  std::promise<void> go;
  std::future<void> going = go.get_future();
  const auto wait = [](void* f) { (void)static_cast<std::future<void>*>(f)->wait_for(std::chrono::seconds(5)); };
  ASSERT_CUDA(cudaLaunchHostFunc(nullptr, wait, &going));
  constexpr size_t kBytes = 1 << 20;
  void* memory = nullptr;
  EXPECT_OK(twohopMemAllocDevice(&memory, kBytes), nullptr);
  std::vector<unsigned char> zeros(kBytes, 9), ones(kBytes, 9);
  EXPECT_EQ(cudaMemcpyAsync(zeros.data(), memory, kBytes, cudaMemcpyDeviceToHost, stream.get()), cudaSuccess);
  EXPECT_EQ(cudaMemsetAsync(memory, 1, kBytes, stream.get()), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream.get()), cudaSuccess);
  go.set_value();
  ASSERT_CUDA(cudaDeviceSynchronize());
  ASSERT_CUDA(cudaMemcpy(ones.data(), memory, kBytes, cudaMemcpyDeviceToHost));
  EXPECT_EQ(zeros, std::vector<unsigned char>(kBytes, 0));
  EXPECT_EQ(ones, std::vector<unsigned char>(kBytes, 1));
  EXPECT_OK(twohopMemFree(memory), nullptr);
}

/// Seconds of a call by events, the mean of `times`.
double seconds_of(cudaStream_t stream, int times, const std::function<void()>& call) {
  cudaEvent_t begin = nullptr, end = nullptr;
  EXPECT_EQ(cudaEventCreate(&begin), cudaSuccess);
  EXPECT_EQ(cudaEventCreate(&end), cudaSuccess);
  call();
  EXPECT_EQ(cudaEventRecord(begin, stream), cudaSuccess);
  for (int i = 0; i < times; ++i) call();
  EXPECT_EQ(cudaEventRecord(end, stream), cudaSuccess);
  EXPECT_EQ(cudaEventSynchronize(end), cudaSuccess);
  float ms = 0;
  EXPECT_EQ(cudaEventElapsedTime(&ms, begin, end), cudaSuccess);
  (void)cudaEventDestroy(begin);
  (void)cudaEventDestroy(end);
  return 1e-3 * static_cast<double>(ms) / times;
}

/// Two ranks, staged and registered; prints lines for gpu-check and asserts no speed.
TEST(OnGpus, TimingOfRanksAsThreads) {
  run_gpu_ranks({.nranks = 2}, [&](int rank, twohopComm_t comm) {
    Stream stream;
    constexpr size_t kMost = 64 << 20;
    DeviceBuffer send(kMost), recv(kMost);
    send.to_device(stream.get());
    all_have_allocated(comm);
    for (const bool registered : {false, true}) {
      void* handle = nullptr;
      if (registered) EXPECT_OK(twohopCommRegister(comm, send.get(), kMost, &handle), comm);
      for (size_t bytes = 4096; bytes <= kMost; bytes *= 16) {
        const double s = seconds_of(stream.get(), 20, [&] {
          EXPECT_OK(twohopAllReduce(send.get(), recv.get(), bytes / 4, twohopFloat32, twohopSum, comm, stream.twohop()),
                    comm);
        });
        if (rank == 0)
          std::printf("# 2 ranks as threads, %d GPU(s), %s: %9zu bytes %10.1f us %8.2f GB/s\n", std::min(devices(), 2),
                      registered ? "registered" : "staged", bytes, 1e6 * s, 1e-9 * static_cast<double>(bytes) / s);
      }
      all_have_ended(comm);
      if (registered) EXPECT_OK(twohopCommDeregister(comm, handle), comm);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, OnGpu,
                         testing::Values(Ranks{.nranks = 1}, Ranks{.nranks = 2}, Ranks{.nranks = 4},
                                         Ranks{.nranks = 2, .ranks_per_node = 1},
                                         Ranks{.nranks = 4, .ranks_per_node = 2}),
                         [](const auto& ranks) {
                           return "ranks" + std::to_string(ranks.param.nranks) + "_pernode" +
                                  std::to_string(ranks.param.ranks_per_node);
                         });

}  // namespace
}  // namespace twohop::test

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (twohop::test::devices() == 0) {
    std::fputs("gpu_test: skipped: no GPU can be used here\n", stderr);
    return 77;
  }
  return RUN_ALL_TESTS();
}
