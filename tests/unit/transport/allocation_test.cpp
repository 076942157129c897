// That the path from put() to arrival allocates nothing: counts every operator new of the thread that looks.
#include <gtest/gtest.h>

#include <cstdlib>
#include <latch>
#include <new>

#include "cluster.hpp"

namespace {
thread_local size_t allocations = 0;
}

// Not inlined: the compiler would see new paired with free() and warn.
[[gnu::noinline]] void* operator new(size_t bytes) {
  ++allocations;
  if (void* p = std::malloc(bytes > 0 ? bytes : 1)) return p;
  std::abort();
}
[[gnu::noinline]] void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  return operator new(bytes);
}
[[gnu::noinline]] void* operator new[](size_t bytes) {
  return operator new(bytes);
}
[[gnu::noinline]] void operator delete[](void* p) noexcept {
  std::free(p);
}
[[gnu::noinline]] void operator delete[](void* p, size_t) noexcept {
  std::free(p);
}
[[gnu::noinline]] void operator delete(void* p) noexcept {
  std::free(p);
}
[[gnu::noinline]] void operator delete(void* p, size_t) noexcept {
  std::free(p);
}

namespace twohop::test {
namespace {

class AllocationTest : public ::testing::TestWithParam<Net> {};

INSTANTIATE_TEST_SUITE_P(Over, AllocationTest, ::testing::Values(Net{}, Net{"softnic"}),
                         [](const ::testing::TestParamInfo<Net>& info) { return info.param.name; });

TEST_P(AllocationTest, AnEndpointAllocatesNothingAfterConnect) {
  constexpr uint64_t kPuts = 500;
  constexpr size_t kBytes = 50000;
  const std::vector<LinkPlan> links = {
      {{0, 0, 0, 1}, kBytes}, {{0, 0, 1, 0}, kBytes}, {{1, 0, 0, 1}, kBytes}, {{1, 0, 1, 0}, kBytes}};
  std::latch done(2);
  run_cluster(GetParam(), 2, links, [&](Rank& r) {
    Endpoint& e = *r.endpoint;
    const std::span<std::byte> data = r.source(kBytes);
    const PutRun runs[] = {{data.data(), 0, kBytes / 2}, {data.data(), kBytes / 2, kBytes / 2}};
    std::vector<pollfd> fds;
    fds.reserve(4);
    const Deadline deadline = in_seconds(20);
    const size_t before = allocations;
    bool failed = false, finished = false;
    while (!failed && !finished && std::chrono::steady_clock::now() < deadline) {
      finished = true;
      for (size_t i = 0; i < 2; ++i) {
        while (e.out(i).posted < kPuts && e.out(i).posted - e.out(i).consumed < kMaxPutsInFlight) e.put(i, {}, runs);
        while (e.in(i).released < e.in(i).arrived) e.release(i);
        finished &= e.in(i).released == kPuts && e.out(i).consumed == kPuts;
      }
      failed = !e.flush();
      const auto changed = e.poll();
      failed |= !changed;
      if (failed || *changed || finished) continue;
      fds.clear();
      e.wait_for(fds);
      ::poll(fds.data(), fds.size(), 50);
    }
    EXPECT_EQ(allocations, before);
    EXPECT_FALSE(failed);
    EXPECT_TRUE(finished);
    EXPECT_TRUE(e.drain(in_seconds(10)));
    done.arrive_and_wait();
  });
}

}  // namespace
}  // namespace twohop::test
