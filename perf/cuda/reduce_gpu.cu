// See reduce_gpu.hpp. The same code as the lanes of a call (device/element/chunk.hpp), with all threads of the GPU as
// one group.
#include "reduce_gpu.hpp"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdio>
#include <vector>

#include "device/element/chunk.hpp"

namespace twohop {
namespace {

constexpr size_t kBytes = 256 << 20;  // of each source: far more than any cache
constexpr int kMostSources = 8, kTimes = 20, kThreads = 512;
constexpr int kSourceCounts[] = {2, 4, 8};

struct Sources {
  const std::byte* at[kMostSources];
};

/// All threads of the grid.
struct WholeGrid {
  __device__ unsigned thread() const { return blockIdx.x * blockDim.x + threadIdx.x; }
  __device__ unsigned threads() const { return gridDim.x * blockDim.x; }
};

__global__ void __launch_bounds__(kThreads)
    sum_floats(std::byte* dst, const __grid_constant__ Sources sources, int n, size_t bytes) {
  using Float = element::Of<twohopFloat32>;
  const element::ChunkSources in{sources.at, nullptr, n};
  element::ChunkReduction<Float, MathOp::kSum>(dst, in, 1).run(WholeGrid(), bytes);
}

__global__ void fill(float* to, size_t count, float value) {
  for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += size_t(gridDim.x) * blockDim.x) to[i] = value;
}

/// Remembers the first error.
class Check {
 public:
  bool operator()(cudaError_t e, const char* what) {
    if (e == cudaSuccess || failed_) return !failed_;
    failed_ = true;
    std::fprintf(stderr, "reduce_perf: --device: %s: %s\n", what, cudaGetErrorString(e));
    return false;
  }
  bool failed() const { return failed_; }

 private:
  bool failed_ = false;
};

/// The median of some runs, in seconds.
template <class Run>
double time_of(Check& check, cudaStream_t stream, Run run) {
  cudaEvent_t begin = nullptr, end = nullptr;
  check(cudaEventCreate(&begin), "event");
  check(cudaEventCreate(&end), "event");
  std::vector<double> times;
  for (int i = 0; i < kTimes && !check.failed(); ++i) {
    check(cudaEventRecord(begin, stream), "event");
    run();
    check(cudaGetLastError(), "launch");
    check(cudaEventRecord(end, stream), "event");
    check(cudaEventSynchronize(end), "kernel");
    float ms = 0;
    check(cudaEventElapsedTime(&ms, begin, end), "event");
    times.push_back(1e-3 * static_cast<double>(ms));
  }
  (void)cudaEventDestroy(begin);
  (void)cudaEventDestroy(end);
  if (times.empty()) return 1;
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

struct Row {
  int sources = 0;
  double reduce_s = 1, copy_s = 1;
  bool right = false;
};

class Measurement {
 public:
  int run() {
    check_(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "stream");
    check_(cudaMalloc(&memory_, kBytes * (kMostSources + 1)), "memory");
    check_(cudaDeviceGetAttribute(&sms_, cudaDevAttrMultiProcessorCount, device()), "attributes");
    bool right = true;
    for (int n : kSourceCounts) {
      if (check_.failed()) break;
      const Row row = measure(n);
      right &= row.right;
      print(row);
    }
    (void)cudaFree(memory_);
    if (stream_) (void)cudaStreamDestroy(stream_);
    return check_.failed() || !right ? 1 : 0;
  }

 private:
  static int device() {
    int d = 0;
    (void)cudaGetDevice(&d);
    return d;
  }
  std::byte* buffer(int i) const { return static_cast<std::byte*>(memory_) + static_cast<size_t>(i) * kBytes; }

  Row measure(int n) {
    Row row{.sources = n};
    Sources sources{};
    for (int s = 0; s < n; ++s) {
      sources.at[s] = buffer(s);
      fill<<<sms_ * 2, kThreads, 0, stream_>>>(reinterpret_cast<float*>(buffer(s)), kBytes / 4, float(1 << s));
    }
    row.reduce_s = time_of(check_, stream_,
                           [&] { sum_floats<<<sms_ * 2, kThreads, 0, stream_>>>(buffer(n), sources, n, kBytes); });
    row.right = is_everywhere(buffer(n), float((1 << n) - 1));
    // Reads half of what the reduction moves and writes the other half.
    const size_t half = kBytes * static_cast<size_t>(n + 1) / 2;
    row.copy_s = time_of(check_, stream_, [&] {
      check_(cudaMemcpyAsync(buffer(0), buffer(0) + half, half, cudaMemcpyDeviceToDevice, stream_), "copy");
    });
    return row;
  }
  bool is_everywhere(const std::byte* at, float value) {
    std::vector<float> seen(kBytes / 4);
    if (!check_(cudaMemcpy(seen.data(), at, kBytes, cudaMemcpyDeviceToHost), "copy")) return false;
    return std::all_of(seen.begin(), seen.end(), [&](float x) { return x == value; });
  }
  static void print(const Row& r) {
    const double gigabytes = 1e-9 * static_cast<double>(kBytes) * (r.sources + 1);
    std::printf("%8d %14.1f %14.1f %8.1f%% %s\n", r.sources, gigabytes / r.reduce_s, gigabytes / r.copy_s,
                100 * r.copy_s / r.reduce_s, r.right ? "" : "WRONG SUM");
  }

  Check check_;
  cudaStream_t stream_ = nullptr;
  void* memory_ = nullptr;
  int sms_ = 1;
};

}  // namespace

int reduce_on_gpu() {
  int devices = 0;
  if (cudaError_t e = cudaGetDeviceCount(&devices); e != cudaSuccess || devices == 0) {
    std::fprintf(stderr, "reduce_perf: --device: no GPU can be used: %s\n",
                 e == cudaSuccess ? "the driver lists none" : cudaGetErrorString(e));
    return 77;
  }
  cudaDeviceProp properties{};
  if (cudaGetDeviceProperties(&properties, 0) == cudaSuccess) std::printf("# GPU 0: %s\n", properties.name);
  std::printf("# float sums, %zu MiB a source; GB/s of all bytes read and written\n", kBytes >> 20);
  std::printf("# %6s %14s %14s %9s\n", "sources", "reduce (GB/s)", "copy (GB/s)", "of copy");
  return Measurement().run();
}

}  // namespace twohop
