// What is bound, and what is left alone?
#include "collectives/exec/numa_binding.hpp"

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <thread>

#include "device/shared_memory.hpp"

namespace twohop {
namespace {

topology::Machine nodes(int count) {
  topology::Machine m;
  for (int i = 0; i < count; ++i) {
    topology::NumaNode node;
    node.os_index = i;
    node.cpus = {{0, 4095}};
    m.numas.push_back(node);
  }
  return m;
}

TEST(NumaBinding, IsNoneWithOneNodeOrAnUnknownOne) {
  EXPECT_FALSE(numa_binding(nodes(1), 0));
  EXPECT_FALSE(numa_binding(nodes(2), topology::kNone));
  topology::Machine m = nodes(2);
  m.numas[1].os_index = topology::kNone;  // numaid="-1"
  EXPECT_FALSE(numa_binding(m, 1));
  EXPECT_EQ(numa_binding(m, 0).node, 0);
}

TEST(NumaBinding, NeverLeavesTheProcessesCpus) {
  std::thread([] {
    cpu_set_t before, after;
    ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
    EXPECT_FALSE(bind_this_thread({}));
    EXPECT_FALSE(bind_this_thread({0, {{4094, 4095}}}));  // CPUs that are not here
    ASSERT_EQ(sched_getaffinity(0, sizeof after, &after), 0);
    EXPECT_TRUE(CPU_EQUAL(&before, &after));
    int first = 0;
    while (!CPU_ISSET(first, &before)) ++first;
    EXPECT_TRUE(bind_this_thread({0, {{first, first}}}));
    ASSERT_EQ(sched_getaffinity(0, sizeof after, &after), 0);
    EXPECT_EQ(CPU_COUNT(&after), 1);
    EXPECT_TRUE(CPU_ISSET(first, &after));
    EXPECT_TRUE(bind_this_thread({0, {{0, 4095}}}));  // the process's mask, not this thread's, is the limit
    ASSERT_EQ(sched_getaffinity(0, sizeof after, &after), 0);
    EXPECT_TRUE(CPU_EQUAL(&before, &after));
  }).join();
}

TEST(NumaBinding, OfMemoryIsAWishAndNeverAFailure) {
  auto memory = SharedMemory::create(1 << 20);
  ASSERT_TRUE(memory);
  EXPECT_FALSE(bind_memory({}, memory->bytes()));
  bind_memory({0, {}}, memory->bytes());    // a container may forbid it
  bind_memory({511, {}}, memory->bytes());  // no such node
  memory->bytes()[0] = std::byte{1};
  EXPECT_EQ(memory->bytes()[0], std::byte{1});
}

TEST(NumaBinding, FindsTheNodeOfAProcessOnlyWhereThereIsOne) {
  topology::Machine m = nodes(2);
  m.numas[0].cpus = {{5000, 5001}};
  EXPECT_EQ(numa_of_this_process(m), 1);
  m.numas[1].cpus = {};
  EXPECT_EQ(numa_of_this_process(m), topology::kNone);
}

}  // namespace
}  // namespace twohop
