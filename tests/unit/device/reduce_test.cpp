// The kernels of every instruction set against the reference, bit for bit: so they equal each other too.
#include "device/reduce.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cfenv>
#include <cstdlib>
#include <cstring>
#include <random>

#include "reference.hpp"

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace twohop {
namespace {

constexpr std::array kOps = {MathOp::kSum, MathOp::kProd, MathOp::kMax, MathOp::kMin};
constexpr std::array kSourceCounts = {1, 2, 3, 4, 5, 8, 17, 64};
constexpr std::array<size_t, 10> kCounts = {0, 1, 2, 3, 7, 31, 64, 65, 1000, 4099};
constexpr size_t kMaxCount = 4099;

const char* op_name(MathOp op) {
  return std::array{"sum", "prod", "max", "min"}[size_t(op)];
}

uint64_t seed() {
  const char* given = std::getenv("TEST_SEED");
  static const uint64_t value = given != nullptr ? std::strtoull(given, nullptr, 0) : std::random_device{}();
  return value;
}

/// Patterns worth meeting: for floats zeros, denormals, one, ulps around it, the largest, infinities, NaNs; for
/// integers the ends of the range.
std::vector<uint64_t> edge_patterns(twohopDataType_t type) {
  const int bits = 8 * int(type_size(type));
  const uint64_t all = ~uint64_t(0) >> (64 - bits), sign = uint64_t(1) << (bits - 1);
  std::vector<uint64_t> magnitudes = {0, 1, 2, sign - 1, sign - 2};
  if (is_floating(type)) {
    const uint64_t inf = type == twohopFloat64   ? 0x7ff0000000000000
                         : type == twohopFloat32 ? 0x7f800000
                                                 : reference::small_float(type).top;
    const uint64_t nan = reference::encode(type, std::nan(""));
    const uint64_t one = reference::encode(type, 1.0);
    for (uint64_t m : {inf, inf - 1, inf - 2, inf + 1, nan, nan - 1, one, one - 1, one + 1}) magnitudes.push_back(m);
  }
  std::vector<uint64_t> patterns;
  for (uint64_t m : magnitudes) {
    patterns.push_back(m & all);
    patterns.push_back((m | sign) & all);
  }
  return patterns;
}

/// Values of which sums and products stay in range, all patterns alike, and edges: a third each.
class Generator {
 public:
  Generator(twohopDataType_t type, uint64_t seed) : type_(type), edges_(edge_patterns(type)), random_(seed) {}
  uint64_t next() {
    const uint64_t choice = random_() % 6;
    if (choice == 0) return edges_[random_() % edges_.size()];
    if (choice < 3 || !is_floating(type_)) return random_() >> (64 - 8 * type_size(type_));
    return reference::encode(type_, static_cast<float>(normal_(random_)));
  }
  std::mt19937_64& random() { return random_; }

 private:
  twohopDataType_t type_;
  std::vector<uint64_t> edges_;
  std::mt19937_64 random_;
  std::normal_distribution<double> normal_;
};

/// nsrcs buffers that start `shift` elements past a 64-byte boundary, and what their reduction must be.
class Sources {
 public:
  Sources(twohopDataType_t type, int nsrcs, size_t count, size_t shift, Generator& generator)
      : type_(type), count_(count), offset_(shift * type_size(type)) {
    for (int s = 0; s < nsrcs; ++s) {
      storage_.emplace_back((offset_ + count * type_size(type) + 127) / 64 * 64);
      for (size_t i = 0; i < count; ++i) reference::put(type, at(s), i, generator.next());
    }
  }
  void* at(int s) { return storage_[size_t(s)].data() + offset_; }
  std::vector<const void*> pointers() {
    std::vector<const void*> p;
    for (size_t s = 0; s < storage_.size(); ++s) p.push_back(at(int(s)));
    return p;
  }
  std::vector<uint64_t> expected(MathOp op, const Scalar* scales, uint64_t divisor) {
    std::vector<uint64_t> result(count_), elements(storage_.size());
    for (size_t i = 0; i < count_; ++i) {
      for (size_t s = 0; s < elements.size(); ++s) elements[s] = reference::get(type_, at(int(s)), i);
      result[i] = reference::reduce(type_, op, elements, scales, divisor);
    }
    return result;
  }

 private:
  twohopDataType_t type_;
  size_t count_, offset_;
  std::vector<std::vector<std::byte>> storage_;
};

/// Compares `count` results, and that the bytes after them are still `guard`.
void expect_equal(twohopDataType_t type, const void* got, const std::vector<uint64_t>& want, size_t count,
                  size_t guard_bytes, const std::string& what) {
  for (size_t i = 0; i < count; ++i)
    ASSERT_EQ(reference::get(type, got, i), want[i]) << what << ", element " << i << " of " << count;
  const auto* end = static_cast<const std::byte*>(got) + count * type_size(type);
  for (size_t b = 0; b < guard_bytes; ++b) ASSERT_EQ(end[b], std::byte{0xa5}) << what << ": wrote past the end";
}

class ReduceKernel : public testing::TestWithParam<std::tuple<Isa, int>> {
 protected:
  void SetUp() override {
    if (!isa_supported(isa())) GTEST_SKIP() << "this CPU lacks " << isa_name(isa());
    RecordProperty("seed", std::to_string(seed()));
  }
  static Isa isa() { return std::get<0>(GetParam()); }
  static twohopDataType_t type() { return twohopDataType_t(std::get<1>(GetParam())); }
  static std::string name(MathOp op, int nsrcs) {
    return fmt::format("{} {} {} of {} (TEST_SEED={})", isa_name(isa()), type_name(type()), op_name(op), nsrcs, seed());
  }
  static void run(MathOp op, void* dst, const std::vector<const void*>& srcs, const Scalar* scales, uint64_t divisor,
                  size_t count) {
    reduce_kernel(isa(), type(), op)(dst, srcs.data(), int(srcs.size()), scales, divisor, count);
  }
};

class IntegerKernel : public ReduceKernel {};
class FloatKernel : public ReduceKernel {};
class SmallFloatKernel : public ReduceKernel {};
class Fp8Kernel : public ReduceKernel {};
class Float16Kernel : public ReduceKernel {};

TEST_P(ReduceKernel, EqualsTheReferenceForAnyCountAndAlignment) {
  Generator generator(type(), seed());
  const size_t element = type_size(type());
  for (int nsrcs : kSourceCounts) {
    const size_t shift = nsrcs % 4;
    Sources sources(type(), nsrcs, kMaxCount, shift, generator);
    for (MathOp op : kOps) {
      const auto want = sources.expected(op, nullptr, 1);
      for (size_t count : kCounts) {
        std::vector<std::byte> dst((kMaxCount + 16) * element, std::byte{0xa5});
        std::byte* out = dst.data() + (count % 3) * element;
        run(op, out, sources.pointers(), nullptr, 1, count);
        expect_equal(type(), out, want, count, element * 4, name(op, nsrcs));
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(ReduceKernel, MayWriteOverAnyOneOfItsSources) {
  Generator generator(type(), seed() + 1);
  constexpr size_t kCount = 777;
  for (int nsrcs : kSourceCounts) {
    for (int aliased = 0; aliased < nsrcs; ++aliased) {
      const MathOp op = kOps[size_t(aliased) % kOps.size()];
      Sources sources(type(), nsrcs, kCount, 1, generator);
      const auto want = sources.expected(op, nullptr, 1);
      run(op, sources.at(aliased), sources.pointers(), nullptr, 1, kCount);
      expect_equal(type(), sources.at(aliased), want, kCount, 0, name(op, nsrcs));
      if (HasFatalFailure()) return;
    }
  }
}

std::vector<Scalar> random_scales(twohopDataType_t type, int nsrcs, std::mt19937_64& random) {
  std::vector<Scalar> scales;
  std::uniform_real_distribution<double> uniform(-2.0, 2.0);
  for (int s = 0; s < nsrcs; ++s) {
    Scalar scale{};
    if (!is_floating(type))
      scale.bits = random();
    else if (type == twohopFloat64)
      scale.f64 = uniform(random);
    else
      scale.f32 = static_cast<float>(uniform(random));
    if (s % 5 == 3) scale = reciprocal(type, 1 + random() % 1000);
    if (s % 7 == 5 && is_floating(type) && type != twohopFloat64) scale.f32 = s % 2 == 0 ? -0.0f : INFINITY;
    scales.push_back(scale);
  }
  return scales;
}

TEST_P(ReduceKernel, ScalesEachSourceBeforeTheFold) {
  Generator generator(type(), seed() + 2);
  constexpr size_t kCount = 1003;
  for (int nsrcs : kSourceCounts) {
    const auto scales = random_scales(type(), nsrcs, generator.random());
    Sources sources(type(), nsrcs, kCount, 2, generator);
    for (MathOp op : kOps) {
      std::vector<std::byte> dst(kCount * type_size(type()));
      run(op, dst.data(), sources.pointers(), scales.data(), 1, kCount);
      expect_equal(type(), dst.data(), sources.expected(op, scales.data(), 1), kCount, 0, name(op, nsrcs));
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(IntegerKernel, DividesIntegersOnceTowardZero) {
  Generator generator(type(), seed() + 3);
  constexpr size_t kCount = 257;
  for (uint64_t divisor :
       {uint64_t(0), uint64_t(1), uint64_t(2), uint64_t(3), uint64_t(127), uint64_t(128), uint64_t(200), uint64_t(1000),
        uint64_t(1) << 31, uint64_t(1) << 32, uint64_t(1) << 63, ~uint64_t(0)}) {
    Sources sources(type(), 3, kCount, 1, generator);
    std::vector<std::byte> dst(kCount * type_size(type()));
    run(MathOp::kSum, dst.data(), sources.pointers(), nullptr, divisor, kCount);
    expect_equal(type(), dst.data(), sources.expected(MathOp::kSum, nullptr, divisor), kCount, 0,
                 name(MathOp::kSum, 3) + fmt::format(" divided by {}", divisor));
  }
}

TEST_P(SmallFloatKernel, WidensAndRoundsEveryPatternToItself) {
  const size_t patterns = size_t(1) << (8 * type_size(type()));
  std::vector<std::byte> src(patterns * type_size(type())), dst(src.size());
  for (size_t i = 0; i < patterns; ++i) reference::put(type(), src.data(), i, i);
  const uint64_t nan = reference::encode(type(), std::nan(""));
  for (MathOp op : kOps) {
    run(op, dst.data(), {src.data()}, nullptr, 1, patterns);
    for (size_t i = 0; i < patterns; ++i) {
      const double value = reference::decode(type(), i);
      uint64_t want = std::isnan(value) ? nan : i;
      if (std::isinf(value) && type() == twohopFloat8e5m2) want = i - 1;  // saturates to the largest finite value
      ASSERT_EQ(reference::get(type(), dst.data(), i), want) << op_name(op) << " of pattern " << i;
    }
  }
}

/// All pairs of fp8. Blocks that hold an infinity or a NaN may go another way than others, and with all patterns in
/// turn each would: so there are pairs without, too.
struct Fp8Pairs {
  std::vector<std::byte> a = std::vector<std::byte>(65536), b = a;

  Fp8Pairs(twohopDataType_t type, bool finite) {
    auto pattern = [&](size_t bits) {
      return std::byte(!finite || std::isfinite(reference::decode(type, bits)) ? bits : 0);
    };
    for (size_t i = 0; i < 65536; ++i) a[i] = pattern(i >> 8), b[i] = pattern(i & 255);
  }
};

TEST_P(Fp8Kernel, AgreesOnEveryPairOfFp8) {
  for (bool finite : {false, true}) {
    const Fp8Pairs pairs(type(), finite);
    std::vector<std::byte> dst(65536);
    for (MathOp op : kOps) {
      run(op, dst.data(), {pairs.a.data(), pairs.b.data()}, nullptr, 1, 65536);
      for (size_t i = 0; i < 65536; ++i) {
        const auto a = uint64_t(pairs.a[i]), b = uint64_t(pairs.b[i]);
        ASSERT_EQ(reference::get(type(), dst.data(), i), reference::reduce(type(), op, {a, b}, nullptr, 1))
            << op_name(op) << " of " << a << " and " << b;
      }
    }
  }
}

/// Sums of `count` elements by the kernel under test and by the scalar one.
void expect_scalar_sums(ReduceFn kernel, twohopDataType_t type, const std::vector<const void*>& srcs, size_t count,
                        const std::string& what) {
  std::vector<std::byte> got(count * type_size(type)), want(got.size());
  kernel(got.data(), srcs.data(), int(srcs.size()), nullptr, 1, count);
  reduce_kernel(Isa::kScalar, type, MathOp::kSum)(want.data(), srcs.data(), int(srcs.size()), nullptr, 1, count);
  if (got == want) return;
  for (size_t i = 0; i < count; ++i)
    ASSERT_EQ(reference::get(type, got.data(), i), reference::get(type, want.data(), i))
        << what << ", element " << i << " of " << count;
}

/// Sources whose sums are hard to round: coarse numbers that add up to half-way points, and now and then one that is
/// far smaller and decides. Of large ones sums leave the type's range; any patterns are any, special ones too.
enum class Hard { kMiddling, kLarge, kAny };
void fill_hard(twohopDataType_t type, std::vector<std::vector<std::byte>>& sources, Hard kind,
               std::mt19937_64& random) {
  const int mantissa = reference::small_float(type).mant_bits;
  const uint64_t sign = uint64_t(1) << (8 * type_size(type) - 1), one = reference::encode(type, 1.0);
  const auto binade = uint64_t(1) << mantissa;
  uint64_t largest = sign - 1;
  while (!std::isfinite(reference::decode(type, largest))) --largest;
  for (size_t i = 0; i < sources[0].size() / type_size(type); ++i) {
    const uint64_t base = kind == Hard::kLarge ? largest + 1 - 2 * binade : one + binade * (random() % 8) - 4 * binade;
    for (auto& source : sources) {
      uint64_t x = base + random() % (2 * binade);
      if (random() % 8 == 0) x = random() % (base + 1);
      if (kind == Hard::kAny) x = random();
      reference::put(type, source.data(), i, x ^ (random() & sign));
    }
  }
}

// The scalar kernels are compared with the reference elsewhere; they are quick enough to compare many sums with.
TEST_P(SmallFloatKernel, RoundsHardSumsAsTheScalarKernelDoes) {
  constexpr size_t kBytes = 1 << 14;
  std::mt19937_64 random(seed() + 5);
  for (int nsrcs : {2, 3, 4, 5, 8, 16, 64}) {
    for (Hard kind : {Hard::kMiddling, Hard::kMiddling, Hard::kLarge, Hard::kAny}) {
      std::vector<std::vector<std::byte>> sources(static_cast<size_t>(nsrcs), std::vector<std::byte>(kBytes));
      fill_hard(type(), sources, kind, random);
      std::vector<const void*> srcs;
      for (const auto& source : sources) srcs.push_back(source.data());
      expect_scalar_sums(reduce_kernel(isa(), type(), MathOp::kSum), type(), srcs, kBytes / type_size(type()),
                         name(MathOp::kSum, nsrcs));
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(Fp8Kernel, AgreesWithTheScalarKernelOnEverySumOfThreeFp8) {
  std::vector<std::byte> c(65536);
  for (bool finite : {false, true}) {
    const Fp8Pairs pairs(type(), finite);
    for (int third = 0; third < 256 && !HasFatalFailure(); ++third) {
      std::fill(c.begin(), c.end(), std::byte(third));
      expect_scalar_sums(reduce_kernel(isa(), type(), MathOp::kSum), type(), {pairs.a.data(), pairs.b.data(), c.data()},
                         65536, fmt::format("{} and {}", name(MathOp::kSum, 3), third));
    }
  }
}

// One pattern with every other, for a sample of the patterns (all 2^32 pairs agree, which takes seconds).
TEST_P(Float16Kernel, AgreesWithTheScalarKernelOnSumsOfTwo) {
  std::mt19937_64 random(seed() + 6);
  auto patterns = edge_patterns(type());
  for (int i = 0; i < 300; ++i) patterns.push_back(random() & 0xffff);
  std::vector<uint16_t> a(65536), b(65536);
  for (size_t i = 0; i < 65536; ++i) b[i] = uint16_t(i);
  for (uint64_t pattern : patterns) {
    std::fill(a.begin(), a.end(), uint16_t(pattern));
    expect_scalar_sums(reduce_kernel(isa(), type(), MathOp::kSum), type(), {a.data(), b.data()}, 65536,
                       fmt::format("{} and {:#x}", name(MathOp::kSum, 2), pattern));
    if (HasFatalFailure()) return;
  }
}

// Rounding at and beside every half-way point: the value (one pattern, exact) times a factor that leads there.
TEST_P(SmallFloatKernel, RoundsHalfWayPointsToEven) {
  const uint64_t patterns = uint64_t(1) << (8 * type_size(type()) - 1), one_pattern = reference::encode(type(), 1.0);
  std::vector<std::byte> src(64 * type_size(type())), dst(src.size());
  for (int i = 0; i < 64; ++i) reference::put(type(), src.data(), size_t(i), one_pattern);
  for (uint64_t i = 0; i + 1 < patterns; i += 1 + i % 3) {
    const double half_way = (reference::decode(type(), i) + reference::decode(type(), i + 1)) / 2;
    const auto middle = static_cast<float>(half_way);
    for (float factor : {middle, std::nextafterf(middle, 0), std::nextafterf(middle, INFINITY), -middle}) {
      Scalar scale{};
      scale.f32 = factor;
      run(MathOp::kSum, dst.data(), {src.data()}, &scale, 1, 1);
      ASSERT_EQ(reference::get(type(), dst.data(), 0), reference::encode(type(), factor)) << "factor " << factor;
    }
  }
}

#if defined(__SSE2__)
TEST_P(FloatKernel, IgnoresTheCallersFloatingPointMode) {
  Generator generator(type(), seed() + 4);
  constexpr size_t kCount = 500;
  Sources sources(type(), 3, kCount, 0, generator);
  const auto want = sources.expected(MathOp::kSum, nullptr, 1);
  std::vector<std::byte> dst(kCount * type_size(type()));
  const unsigned before = _mm_getcsr();
  const unsigned hostile = before | 0x8040 | 0x6000;  // denormals flushed, rounding toward zero
  _mm_setcsr(hostile);
  run(MathOp::kSum, dst.data(), sources.pointers(), nullptr, 1, kCount);
  const unsigned after = _mm_getcsr();
  _mm_setcsr(before);
  EXPECT_EQ(after & 0xffc0, hostile & 0xffc0) << "the caller's mode was not restored";
  expect_equal(type(), dst.data(), want, kCount, 0, name(MathOp::kSum, 3));
}
#endif

std::string parameter_name(const testing::TestParamInfo<std::tuple<Isa, int>>& info) {
  return fmt::format("{}_{}", isa_name(std::get<0>(info.param)), type_name(twohopDataType_t(std::get<1>(info.param))));
}
const auto kAllIsas = testing::Values(Isa::kScalar, Isa::kAvx2, Isa::kAvx512, Isa::kAvx512Fp16);
const auto kFloats16 = testing::Values(twohopFloat16, twohopBfloat16);
const auto kFp8 = testing::Values(twohopFloat8e4m3, twohopFloat8e5m2);
const auto kSmallFloats = testing::Values(twohopFloat16, twohopBfloat16, twohopFloat8e4m3, twohopFloat8e5m2);
const auto kFloats =
    testing::Values(twohopFloat16, twohopFloat32, twohopFloat64, twohopBfloat16, twohopFloat8e4m3, twohopFloat8e5m2);
INSTANTIATE_TEST_SUITE_P(All, ReduceKernel, testing::Combine(kAllIsas, testing::Range(0, TWOHOP_NUM_DATATYPES)),
                         parameter_name);
INSTANTIATE_TEST_SUITE_P(All, IntegerKernel, testing::Combine(kAllIsas, testing::Range(0, int(twohopFloat16))),
                         parameter_name);
INSTANTIATE_TEST_SUITE_P(All, FloatKernel, testing::Combine(kAllIsas, kFloats), parameter_name);
INSTANTIATE_TEST_SUITE_P(All, SmallFloatKernel, testing::Combine(kAllIsas, kSmallFloats), parameter_name);
INSTANTIATE_TEST_SUITE_P(All, Fp8Kernel, testing::Combine(kAllIsas, kFp8), parameter_name);
INSTANTIATE_TEST_SUITE_P(All, Float16Kernel, testing::Combine(kAllIsas, kFloats16), parameter_name);

TEST(ChooseIsa, AutoIsTheBestThisCpuHas) {
  auto isa = choose_isa("auto");
  ASSERT_TRUE(isa);
  EXPECT_TRUE(isa_supported(*isa));
  for (Isa other : {Isa::kAvx2, Isa::kAvx512, Isa::kAvx512Fp16})
    EXPECT_TRUE(*isa >= other || !isa_supported(other)) << isa_name(*isa);
}

TEST(ChooseIsa, NamesSelectAndUnknownOnesListWhatThereIs) {
  auto scalar = choose_isa("scalar");
  ASSERT_TRUE(scalar);
  EXPECT_EQ(*scalar, Isa::kScalar);
  for (const char* bad : {"avx1024", "", "AVX2", "auto "}) {
    auto isa = choose_isa(bad);
    ASSERT_FALSE(isa) << bad;
    EXPECT_EQ(isa.error().code, twohopInvalidArgument);
    EXPECT_NE(isa.error().message.find("auto, scalar"), std::string::npos) << isa.error().message;
  }
  for (Isa isa : {Isa::kAvx2, Isa::kAvx512, Isa::kAvx512Fp16})
    EXPECT_EQ(bool(choose_isa(isa_name(isa))), isa_supported(isa));
}

}  // namespace
}  // namespace twohop
