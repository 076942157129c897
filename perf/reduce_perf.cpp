// How fast the reduction kernels are, beside a memcpy that moves as many bytes.
//
//   reduce_perf                                    sums of every type, 2, 4 and 8 sources, every instruction set
//   reduce_perf --benchmark_filter='float/.*/8'    any of Google Benchmark's flags
//   reduce_perf --device                           float sums on GPU 0 instead, beside its own copy bandwidth
//   reduce_perf --benchmark_filter='max'           the other operations: prod, max, min, avg
//
// Names are type/operation/instruction set/regime/sources. `cache` is the executor's case, chunks of 128 KiB; `stream`
// is 64 MiB a source. bytes_per_second counts all bytes read and written. Repetitions are interleaved at random, and
// the median of each is what to compare.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "device/reduce.hpp"
#include "reduce_gpu.hpp"

namespace twohop {
namespace {

constexpr size_t kCacheBytes = 128 << 10, kStreamBytes = 64 << 20;
constexpr int kSourceCounts[] = {2, 4, 8};
constexpr Isa kIsas[] = {Isa::kScalar, Isa::kAvx2, Isa::kAvx512, Isa::kAvx512Fp16};
struct OpRow {
  MathOp op;
  const char* name;
  bool average = false;  // scales for floats, a division at the end for integers
};
constexpr OpRow kOps[] = {{MathOp::kSum, "sum"},
                          {MathOp::kProd, "prod"},
                          {MathOp::kMax, "max"},
                          {MathOp::kMin, "min"},
                          {MathOp::kSum, "avg", true}};
struct Regime {
  const char* name;
  size_t bytes;
};
constexpr Regime kRegimes[] = {{"cache", kCacheBytes}, {"stream", kStreamBytes}};

/// Random bytes with the seed of every run, the same for all types: the high bytes of float16 from a normal
/// distribution, so that half, fp8_e5m2 (whose kernels may take longer for some values) and fp8_e4m3 see plausible
/// data, and all other floats numbers of every size without any special one.
void fill(std::byte* out, size_t bytes) {
  constexpr size_t kPeriod = (1 << 20) + 4099;  // no two buffers alike
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  for (size_t i = 0; i < std::min(kPeriod, bytes); ++i) {
    uint32_t bits = 0;
    const float x = normal(random);
    std::memcpy(&bits, &x, sizeof x);
    const uint32_t magnitude = bits & 0x7fffffff, bias = 112u << 23;
    out[i] = static_cast<std::byte>(bits >> 31 << 7 | (magnitude < bias ? 0 : (magnitude - bias) >> 21));
  }
  for (size_t at = kPeriod; at < bytes; at += kPeriod) std::memcpy(out + at, out, std::min(kPeriod, bytes - at));
}

/// One arena for all benchmarks: the largest case is nine buffers of kStreamBytes. Page aligned; one cache line between
/// buffers, so that they do not all map to the same cache sets.
std::byte* buffer(int index, size_t bytes) {
  constexpr size_t kSkew = 4096 + 64, kArena = 9 * (kStreamBytes + kSkew);
  static std::byte* arena = [] {
    auto* p = static_cast<std::byte*>(std::aligned_alloc(4096, (kArena + 4095) / 4096 * 4096));
    fill(p, kArena);
    return p;
  }();
  return arena + static_cast<size_t>(index) * (bytes + kSkew);
}

/// Where no source ever lies: what is a sum in one type may be nothing but NaN in the next.
std::byte* result_buffer() {
  return buffer(8, kStreamBytes);
}

void count_bytes(benchmark::State& state, size_t bytes) {
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations()) * static_cast<int64_t>(bytes));
}

void reduce(benchmark::State& state, Isa isa, twohopDataType_t type, OpRow op, size_t bytes, int nsrcs) {
  const ReduceFn kernel = reduce_kernel(isa, type, op.op);
  const std::vector<Scalar> scales(static_cast<size_t>(nsrcs), reciprocal(type, 8));
  const Scalar* scaled = op.average && is_floating(type) ? scales.data() : nullptr;
  const uint64_t divisor = op.average && !is_floating(type) ? 8 : 1;
  std::vector<const void*> srcs;
  for (int s = 0; s < nsrcs; ++s) srcs.push_back(buffer(s, bytes));
  std::byte* dst = result_buffer();
  const size_t count = bytes / type_size(type);
  for (auto _ : state) {
    kernel(dst, srcs.data(), nsrcs, scaled, divisor, count);
    benchmark::ClobberMemory();
  }
  count_bytes(state, bytes * static_cast<size_t>(nsrcs + 1));
}

/// Reads half of what a reduction of nsrcs moves, and writes the other half. In pieces, since a large memcpy changes to
/// stores that bypass the cache, which would be no help to whoever reads the result next.
void copy(benchmark::State& state, size_t bytes, int nsrcs) {
  constexpr size_t kPiece = 256 << 10;
  const size_t half = bytes * static_cast<size_t>(nsrcs + 1) / 2;
  std::byte* src = buffer(0, half);
  std::byte* dst = buffer(1, half);
  for (auto _ : state) {
    for (size_t at = 0; at < half; at += kPiece) std::memcpy(dst + at, src + at, std::min(kPiece, half - at));
    benchmark::ClobberMemory();
  }
  count_bytes(state, 2 * half);
}

void register_reduce(Isa isa, twohopDataType_t type, OpRow op, Regime regime, int nsrcs) {
  const std::string name = fmt::format("{}/{}/{}/{}/{}", type_name(type), op.name, isa_name(isa), regime.name, nsrcs);
  benchmark::RegisterBenchmark(name.c_str(),
                               [=](benchmark::State& state) { reduce(state, isa, type, op, regime.bytes, nsrcs); });
}

void register_all(bool sums_only) {
  for (Regime regime : kRegimes) {
    for (int nsrcs : kSourceCounts) {
      benchmark::RegisterBenchmark(fmt::format("copy/{}/{}", regime.name, nsrcs).c_str(),
                                   [=](benchmark::State& state) { copy(state, regime.bytes, nsrcs); });
      for (int type = 0; type < TWOHOP_NUM_DATATYPES; ++type)
        for (const OpRow& op : kOps)
          for (Isa isa : kIsas)
            if (isa_supported(isa) && (!sums_only || &op == kOps))
              register_reduce(isa, static_cast<twohopDataType_t>(type), op, regime, nsrcs);
    }
  }
}

bool given(const std::vector<char*>& args, const char* flag) {
  for (const char* arg : args)
    if (std::strncmp(arg, flag, std::strlen(flag)) == 0) return true;
  return false;
}

}  // namespace
}  // namespace twohop

int main(int argc, char** argv) {
  std::vector<char*> args(argv, argv + argc);
  if (argc == 2 && std::strcmp(argv[1], "--device") == 0) return twohop::reduce_on_gpu();
  const bool filtered = twohop::given(args, "--benchmark_filter");
  // Defaults that the command line may override.
  static char repetitions[] = "--benchmark_repetitions=5", interleave[] = "--benchmark_enable_random_interleaving=true",
              report[] = "--benchmark_report_aggregates_only=true", min_time[] = "--benchmark_min_time=0.02";
  args.insert(args.begin() + 1, {repetitions, interleave, report, min_time});
  int count = static_cast<int>(args.size());
  benchmark::Initialize(&count, args.data());
  if (benchmark::ReportUnrecognizedArguments(count, args.data())) return 1;
  twohop::register_all(!filtered);
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
