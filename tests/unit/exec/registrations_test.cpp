// Is registered memory kept apart, and is it sent from exactly while it is registered, with the same results?
#include "collectives/exec/registrations.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <latch>
#include <thread>

#include "bootstrap/unique_id.hpp"
#include "collectives/exec/communicator.hpp"
#include "collectives/exec/run.hpp"

namespace twohop {
namespace {

using ::testing::HasSubstr;

std::byte memory[1000];
Registrations::Range range(size_t begin, size_t end) {
  return {memory + begin, end - begin};
}

TEST(Registrations, CoverWhatLiesWhollyInOneRange) {
  Registrations r;
  ASSERT_TRUE(r.add(range(100, 200)));
  ASSERT_TRUE(r.add(range(200, 300)));
  EXPECT_TRUE(r.covers(memory + 100, 100));
  EXPECT_TRUE(r.covers(memory + 250, 50));
  EXPECT_FALSE(r.covers(memory + 99, 2));
  EXPECT_FALSE(r.covers(memory + 150, 51));  // in two ranges
  EXPECT_FALSE(r.covers(memory + 300, 1));
  EXPECT_FALSE(r.covers(memory + 250, UINT64_MAX));
}

TEST(Registrations, RefuseWhatOverlapsAndNameIt) {
  Registrations r;
  ASSERT_TRUE(r.add(range(100, 200)));
  for (auto [begin, end] : {std::pair{100, 200}, {150, 160}, {50, 101}, {199, 300}, {50, 300}}) {
    auto refused = r.add(range(begin, end));
    ASSERT_FALSE(refused) << begin;
    EXPECT_EQ(refused.error().code, twohopInvalidUsage);
    EXPECT_THAT(refused.error().message, HasSubstr("(100 bytes), which is registered"));
  }
  EXPECT_TRUE(r.add(range(0, 100)));
  EXPECT_TRUE(r.add(range(200, 201)));
}

TEST(Registrations, AreGoneOnceRemovedAndTheirNumbersToo) {
  Registrations r;
  const uint64_t first = *r.add(range(0, 10));
  r.remove(first);
  EXPECT_FALSE(r.covers(memory, 1));
  EXPECT_FALSE(r.find(first));
  EXPECT_NE(*r.add(range(0, 10)), first);
}

/// Ranks as threads, over the network named; `done` keeps all until the last has finished.
void with_ranks(int nranks, int ranks_per_node, const std::string& algo, const std::string& net,
                const std::function<void(Communicator&)>& body) {
  Options options;
  options.net = net;
  auto id = make_unique_id(options);
  ASSERT_TRUE(id) << id.error().message;
  CommConfig config;
  config.algo = algo;
  config.ranks_per_node = ranks_per_node;
  config.timeout_s = 20;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < nranks; ++rank)
    threads.emplace_back([&, rank] {
      auto comm = Communicator::init(*id, nranks, rank, config, options);
      ASSERT_TRUE(comm) << comm.error().message;
      body(**comm);
    });
  for (auto& t : threads) t.join();
}

/// Sums `data` over all ranks; each element of rank r is r + 1. Puts that went from the user's memory.
uint64_t sum(Communicator& comm, std::span<int32_t> data, bool in_place, Operation op = Operation::kSum) {
  std::fill(data.begin(), data.end(), comm.rank() + 1);
  std::vector<int32_t> out(data.size());
  int32_t* recv = in_place ? data.data() : out.data();
  const uint64_t before = comm.counters().direct_puts;
  auto done = run_one(comm, {.send = data.data(), .recv = recv, .count = data.size(), .type = twohopInt32, .op = op});
  EXPECT_TRUE(done) << done.error().message;
  int32_t want = comm.nranks() * (comm.nranks() + 1) / 2;
  if (op == Operation::kAvg) want /= comm.nranks();
  const auto wrong = std::count_if(recv, recv + data.size(), [&](int32_t x) { return x != want; });
  EXPECT_EQ(wrong, 0);
  return comm.counters().direct_puts - before;
}

struct Way {
  const char *algo, *net;
};

class DirectSends : public testing::TestWithParam<Way> {};

TEST_P(DirectSends, HappenWhileTheSendBufferIsRegistered) {
  with_ranks(3, 1, GetParam().algo, GetParam().net, [](Communicator& comm) {
    std::vector<int32_t> data(300'000);
    EXPECT_EQ(sum(comm, data, false), 0u);
    auto number = comm.register_memory(std::as_writable_bytes(std::span(data)));
    ASSERT_TRUE(number) << number.error().message;
    for (bool in_place : {false, true}) {
      EXPECT_GT(sum(comm, data, in_place), 0u);
      EXPECT_GT(sum(comm, std::span(data).subspan(1000, 100'003), in_place), 0u);
      EXPECT_GT(sum(comm, data, in_place, Operation::kAvg), 0u);  // of integers: nothing is scaled
    }
    ASSERT_TRUE(comm.deregister_memory(*number));
    EXPECT_EQ(sum(comm, data, true), 0u);
  });
}

TEST_P(DirectSends, AreEachRanksOwnAffair) {
  with_ranks(4, 1, GetParam().algo, GetParam().net, [](Communicator& comm) {
    std::vector<int32_t> data(200'003);
    const bool direct = comm.rank() % 2 == 1;
    EXPECT_TRUE(!direct || comm.register_memory(std::as_writable_bytes(std::span(data))));
    for (int i = 0; i < 3; ++i) EXPECT_EQ(sum(comm, data, i % 2) > 0, direct);
  });
}

TEST_P(DirectSends, DoNotHappenWhereOthersReadTheWindow) {
  with_ranks(4, 2, "two-hop", GetParam().net, [](Communicator& comm) {
    std::vector<int32_t> data(200'003);
    ASSERT_TRUE(comm.register_memory(std::as_writable_bytes(std::span(data))));
    EXPECT_EQ(sum(comm, data, false), 0u);
  });
}

/// Memory that was freed and is there again at the same address: nothing old is sent.
TEST_P(DirectSends, SendWhatIsThereNow) {
  with_ranks(2, 1, GetParam().algo, GetParam().net, [](Communicator& comm) {
    std::vector<int32_t> data(100'000);
    for (int i = 0; i < 5; ++i) {
      auto number = comm.register_memory(std::as_writable_bytes(std::span(data)));
      ASSERT_TRUE(number);
      sum(comm, data, true);
      ASSERT_TRUE(comm.deregister_memory(*number));
      sum(comm, data, true);
    }
  });
}

std::string way_name(const testing::TestParamInfo<Way>& info) {
  std::string name = fmt::format("{}_{}", info.param.net, info.param.algo);
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}
/// 16 channels hold the chunks that are under way, not 16 times what one channel may have.
TEST(Windows, OfManyChannelsStaySmall) {
  with_ranks(4, 2, "auto", "softnic", [](Communicator& comm) {
    const EndpointCounters net = comm.counters().net;
    ASSERT_GT(net.rails, 0u);
    EXPECT_LE(net.registered_bytes / net.rails, uint64_t{60} << 20);  // each rail registers all
    EXPECT_GT(net.registered_bytes / net.rails, uint64_t{8} << 20);
    std::vector<float> data(3'000'001, 1.0f);
    Call call{.send = data.data(), .recv = data.data(), .count = data.size(), .type = twohopFloat32};
    auto done = run_one(comm, call);
    ASSERT_TRUE(done) << done.error().message;
    EXPECT_EQ(std::count(data.begin(), data.end(), 4.0f), static_cast<std::ptrdiff_t>(data.size()));
  });
}

INSTANTIATE_TEST_SUITE_P(Ways, DirectSends,
                         testing::Values(Way{"two-hop", "tcp"}, Way{"flat", "tcp"}, Way{"two-hop", "softnic"},
                                         Way{"flat", "softnic"}),
                         way_name);

}  // namespace
}  // namespace twohop
