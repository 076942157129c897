// The element math that the GPU runs, run by a group of threads played one after the other: equal bits to the host's
// kernels, for all types and operations, counts, alignments, scales and divisors.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <random>

#include "device/element/chunk.hpp"
#include "device/element/dispatch.hpp"
#include "device/reduce.hpp"
#include "reference.hpp"

namespace twohop {
namespace {

constexpr std::array kOps = {MathOp::kSum, MathOp::kProd, MathOp::kMax, MathOp::kMin};

/// Thread `t` of `n`.
struct OneThread {
  unsigned t, n;
  unsigned thread() const { return t; }
  unsigned threads() const { return n; }
};

uint64_t seed() {
  const char* given = std::getenv("TEST_SEED");
  static const uint64_t value = given != nullptr ? std::strtoull(given, nullptr, 0) : std::random_device{}();
  return value;
}

class Element : public testing::TestWithParam<int> {
 protected:
  void SetUp() override { RecordProperty("seed", std::to_string(seed())); }
  static twohopDataType_t type() { return twohopDataType_t(GetParam()); }
  static size_t size() { return type_size(type()); }

  /// nsrcs buffers of `bytes` that start `offset` bytes after a multiple of 16, of random patterns; small floats meet
  /// infinities and NaN often enough that way, the larger ones get them by hand.
  void make_sources(int nsrcs, size_t bytes, size_t offset) {
    storage_.assign(nsrcs, std::vector<Aligned>(bytes / 16 + 3));
    srcs_.clear();
    for (auto& buffer : storage_) {
      std::byte* at = buffer.data()->bytes + offset;
      for (size_t i = 0; i < bytes / size(); ++i) reference::put(type(), at, i, pattern());
      srcs_.push_back(at);
    }
  }
  uint64_t pattern() {
    const uint64_t x = random_();
    if (!is_floating(type()) || x % 4 == 0) return random_();
    static constexpr double kSpecial[] = {NAN, INFINITY, -INFINITY, 0.0, -0.0, 1.0};
    if (x % 16 == 1) return reference::encode(type(), kSpecial[x / 16 % 6]);
    return reference::encode(type(), static_cast<float>(normal_(random_)));
  }
  std::vector<Scalar> scales(int nsrcs) {
    std::vector<Scalar> s(nsrcs);
    for (Scalar& x : s) {
      x.bits = random_();
      if (is_floating(type())) x = reciprocal(type(), 1 + random_() % 7);
    }
    return s;
  }

  void expect_host_bits(MathOp op, const Scalar* scales, uint64_t divisor, size_t count, size_t dst_offset,
                        unsigned threads, const char* what) {
    const size_t bytes = count * size();
    std::vector<Aligned> got(bytes / 16 + 4), want(bytes / 16 + 4);
    std::byte* dst = got.data()->bytes + dst_offset;
    const element::ChunkSources in{srcs_.data(), scales, int(srcs_.size())};
    element::with_element(type(), [&](auto e) {
      for (unsigned t = 0; t < threads; ++t)
        element::reduce_chunk<decltype(e)>(OneThread{t, threads}, op, dst, in, divisor, bytes);
    });
    reduce_kernel(Isa::kScalar, type(), op)(want.data()->bytes + dst_offset,
                                            reinterpret_cast<const void* const*>(srcs_.data()), int(srcs_.size()),
                                            scales, divisor, count);
    for (size_t i = 0; i < count; ++i)
      ASSERT_EQ(reference::get(type(), dst, i), reference::get(type(), want.data()->bytes + dst_offset, i))
          << type_name(type()) << " op " << int(op) << " of " << srcs_.size() << ", element " << i << " of " << count
          << ", " << what << " (TEST_SEED=" << seed() << ")";
    ASSERT_EQ(std::memcmp(got.data(), want.data(), got.size() * 16), 0) << "wrote outside its chunk";
  }

  struct alignas(16) Aligned {
    std::byte bytes[16]{};
  };
  std::mt19937_64 random_{seed()};
  std::normal_distribution<double> normal_;
  std::vector<std::vector<Aligned>> storage_;
  std::vector<const std::byte*> srcs_;
};

class SmallElement : public Element {};

TEST_P(Element, EqualsTheHostKernelsForAnyCountAndAlignment) {
  for (int nsrcs : {1, 2, 3, 5, 8})
    for (size_t count : {size_t(0), size_t(1), size_t(15), size_t(16), size_t(517), size_t(2048)})
      for (size_t shift : {size_t(0), size(), 16 / size() * size() / 2}) {
        make_sources(nsrcs, count * size(), shift % 16);
        for (MathOp op : kOps) expect_host_bits(op, nullptr, 1, count, shift % 16, 7, "plain");
        if (HasFatalFailure()) return;
      }
}

TEST_P(Element, MayReadSourcesThatAreAlignedDifferently) {
  make_sources(2, 600 * size(), 0);
  expect_host_bits(MathOp::kSum, nullptr, 1, 600, size() % 16, 32, "only the sources aligned");
}

TEST_P(Element, ScalesAndDividesLikeTheHost) {
  for (int nsrcs : {1, 2, 4}) {
    make_sources(nsrcs, 1000 * size(), 0);
    const auto by = scales(nsrcs);
    for (MathOp op : kOps) expect_host_bits(op, by.data(), 1, 1000, 0, 5, "scaled");
    if (is_floating(type())) continue;
    for (uint64_t divisor : {uint64_t(2), uint64_t(3), uint64_t(200), uint64_t(1) << 40, ~uint64_t(0)})
      expect_host_bits(MathOp::kSum, nullptr, divisor, 1000, 0, 5, "divided");
  }
}

TEST_P(SmallElement, RoundsEverySumOfTwoLikeTheHost) {
  // All patterns against a few (16 bits), or all pairs (8 bits).
  const size_t patterns = size_t(1) << (8 * size()), count = 65536;
  for (uint64_t turn = 0; turn < (size() == 2 ? 12 : 1); ++turn) {
    make_sources(2, count * size(), 0);
    const uint64_t other = random_();
    for (size_t i = 0; i < count; ++i) {
      reference::put(type(), storage_[0].data(), i, i % patterns);
      reference::put(type(), storage_[1].data(), i, size() == 2 ? other + turn : i / patterns);
    }
    for (MathOp op : kOps) expect_host_bits(op, nullptr, 1, count, 0, 1, "all patterns");
    if (HasFatalFailure()) return;
  }
}

TEST_P(Element, CopiesAnyAlignment) {
  std::vector<std::byte> from(4096 + 64), to(4096 + 64);
  for (size_t i = 0; i < from.size(); ++i) from[i] = std::byte(i * 7 + i / 256);
  for (size_t bytes : {size_t(0), size_t(1), size_t(15), size_t(16), size_t(100), size_t(4001)})
    for (size_t shift : {0, 1, 2, 4, 8, 16})
      for (size_t other : {0, 8, 4, 3}) {
        std::fill(to.begin(), to.end(), std::byte{0xa5});
        for (unsigned t = 0; t < 6; ++t)
          element::copy_chunk(OneThread{t, 6}, to.data() + 16 + other, from.data() + shift, bytes);
        ASSERT_EQ(std::memcmp(to.data() + 16 + other, from.data() + shift, bytes), 0) << bytes << " bytes";
        ASSERT_EQ(to[15 + other], std::byte{0xa5});
        ASSERT_EQ(to[16 + other + bytes], std::byte{0xa5});
      }
}

std::string type_of(const testing::TestParamInfo<int>& info) {
  return type_name(twohopDataType_t(info.param));
}
INSTANTIATE_TEST_SUITE_P(All, Element, testing::Range(0, TWOHOP_NUM_DATATYPES), type_of);
INSTANTIATE_TEST_SUITE_P(All, SmallElement,
                         testing::Values(twohopFloat16, twohopBfloat16, twohopFloat8e4m3, twohopFloat8e5m2), type_of);

}  // namespace
}  // namespace twohop
