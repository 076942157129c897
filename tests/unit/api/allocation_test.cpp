// Does a blocking call allocate, or touch memory for the first time? Not after the first calls of its kind, in the
// thread that makes it.
#include <sys/resource.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <new>

#include "ranks.hpp"

namespace {

thread_local uint64_t allocations = 0;

void* counted(size_t bytes, size_t align) {
  ++allocations;
  void* p = align > alignof(std::max_align_t) ? std::aligned_alloc(align, (bytes + align - 1) / align * align)
                                              : std::malloc(bytes ? bytes : 1);
  if (!p) throw std::bad_alloc();
  return p;
}

}  // namespace

// Not inlined: else the compiler sees free() meet the memory of new, and warns.
[[gnu::noinline]] void* operator new(size_t bytes) {
  return counted(bytes, 0);
}
[[gnu::noinline]] void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  return counted(bytes, 0);
}
[[gnu::noinline]] void* operator new(size_t bytes, std::align_val_t align) {
  return counted(bytes, static_cast<size_t>(align));
}
[[gnu::noinline]] void operator delete(void* p) noexcept {
  std::free(p);
}
[[gnu::noinline]] void operator delete(void* p, size_t) noexcept {
  std::free(p);
}
[[gnu::noinline]] void operator delete(void* p, std::align_val_t) noexcept {
  std::free(p);
}
[[gnu::noinline]] void operator delete(void* p, size_t, std::align_val_t) noexcept {
  std::free(p);
}

namespace twohop {
namespace {

/// Pages that this thread has met for the first time.
long page_faults() {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_minflt + usage.ru_majflt;
}

constexpr bool pages_are_ours() {  // a sanitizer has pages of its own
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return false;
#elif defined(__has_feature)
  return !__has_feature(address_sanitizer) && !__has_feature(thread_sanitizer);
#else
  return true;
#endif
}

void expect_no_allocation_after_warm_up(const twohopConfig_t& config) {
  run_ranks(
      4,
      [](int, twohopComm_t comm) {
        std::vector<float> data(50000, 1), all(4 * data.size());
        long fewest_faults = std::numeric_limits<long>::max();
        for (int round = 0; round < 4; ++round) {
          const uint64_t before = allocations;
          const long faults_before = page_faults();
          for (int i = 0; i < 20; ++i) {
            ASSERT_EQ(twohopAllReduce(data.data(), all.data(), 2, twohopFloat32, twohopSum, comm, nullptr),
                      twohopSuccess);
            ASSERT_EQ(twohopAllReduce(data.data(), data.data(), data.size(), twohopFloat32, twohopAvg, comm, nullptr),
                      twohopSuccess);
            ASSERT_EQ(twohopAllGather(data.data(), all.data(), data.size(), twohopFloat32, comm, nullptr),
                      twohopSuccess);
            ASSERT_EQ(twohopBarrier(comm, nullptr), twohopSuccess);
          }
          if (round == 0) continue;  // warms up
          fewest_faults = std::min(fewest_faults, page_faults() - faults_before);
          EXPECT_EQ(allocations, before);
        }
        // The kernel takes a page away once in a while, to move it or to see who uses it; hardly in every round.
        if (pages_are_ours()) {
          EXPECT_EQ(fewest_faults, 0);
        }
      },
      config);
}

TEST(BlockingCalls, AllocateNothingAfterWarmUpOnOneNode) {
  expect_no_allocation_after_warm_up(ranks_per_node(0));
}

TEST(BlockingCalls, AllocateNothingAfterWarmUpOnTwoNodes) {
  expect_no_allocation_after_warm_up(ranks_per_node(2));
}

}  // namespace
}  // namespace twohop
