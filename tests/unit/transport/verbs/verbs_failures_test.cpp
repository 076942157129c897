// What does the verbs transport say and count when things go wrong, and when they go well? On the emulated device.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <latch>

#include "../cluster.hpp"

namespace twohop::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

/// One rail, and a peer that does not answer is given up after a few milliseconds.
Net impatient() {
  return {"softnic", [](verbs::VerbsConfig& c) {
            c.rails.max_rails = 1;
            c.tuning.timeout = 8;
            c.tuning.retry_count = 2;
          }};
}

const std::vector<LinkPlan> kBothWays = {{{0, 1, 0, 1}, 1 << 20}, {{0, 1, 1, 0}, 1 << 20}};

/// Takes the first rail's port down for everybody, or up again.
void set_port(Endpoint& e, int up) {
  auto& rail = dynamic_cast<verbs::VerbsEndpoint&>(e).rails().front();
  void* library = ::dlopen(verbs::find_softnic()->c_str(), RTLD_NOW | RTLD_NOLOAD);
  ASSERT_NE(library, nullptr);
  auto set = reinterpret_cast<void (*)(ibv_context*, int)>(::dlsym(library, "softnic_set_port"));
  ASSERT_NE(set, nullptr);
  set(rail.context->get(), up);
  ::dlclose(library);
}

TEST(SoftnicFailures, AConnectionThatBreaksIsDescribedInFull) {
  std::latch down(2), done(2);
  run_cluster(impatient(), 2, kBothWays, [&](Rank& r) {
    Endpoint& e = *r.endpoint;
    if (r.rank == 0) {
      set_port(e, 0);
      const PutRun run{r.source(1000).data(), 0, 1000};
      e.put(0, {1, 2}, {&run, 1});
      ASSERT_TRUE(e.flush());
      const Error error = poll_until_error(e, 10);
      set_port(e, -1);
      EXPECT_EQ(error.code, twohopRemoteError);
      EXPECT_EQ(error.rank, 1);
      EXPECT_EQ(error.rail, 0);
      EXPECT_EQ(error.scope, Scope::kPeer);
      EXPECT_THAT(error.message,
                  AllOf(HasSubstr("queue pair 0x"), HasSubstr("of rail 0 (softnic0:1, RoCE) to rank 1 (127.0.0.1:"),
                        HasSubstr("GID 3 RoCE v2 10.64.0.1 to softnic0:1 10.64.0.1"),
                        HasSubstr("MTU 4096, timeout 8 and 2 retries"),
                        HasSubstr("transport retry counter exceeded (status 12"), HasSubstr("s after the connection"),
                        HasSubstr("Device counters that moved: "), HasSubstr("retry_exceeded_err +"),
                        HasSubstr("The device has reported: "), HasSubstr("Likely cause: the port went down")));
      EXPECT_THAT(error.message, Not(HasSubstr("opcode")));
      auto again = e.poll();  // dead for good, with the same cause
      ASSERT_FALSE(again);
      EXPECT_EQ(again.error().message, error.message);
    }
    done.arrive_and_wait();
  });
}

TEST(SoftnicFailures, WhatEndsARankIsToldToOneThatHasNothingUnderWay) {
  use_softnic("fail=dev0:qp-send:1:LOC_PROT_ERR");
  std::latch done(2);
  run_cluster(impatient(), 2, kBothWays, [&](Rank& r) {
    Endpoint& e = *r.endpoint;
    const PutRun run{r.source(1000).data(), 0, 1000};
    if (r.rank == 0) {
      e.put(0, {1, 2}, {&run, 1});
      EXPECT_TRUE(e.flush());
    }
    const Error error = poll_until_error(e, 10);
    EXPECT_EQ(error.code, twohopRemoteError);
    EXPECT_EQ(error.rank, 1 - r.rank);
    EXPECT_THAT(error.message, HasSubstr("local protection error"));
    if (r.rank == 1) {
      EXPECT_THAT(error.message, HasSubstr("it reports: queue pair"));
    }
    done.arrive_and_wait();
  });
  use_softnic();
}

TEST(SoftnicFailures, AFlapShorterThanTheRetriesIsNotAnError) {
  const Net patient{"softnic", [](verbs::VerbsConfig& c) {
                      c.rails.max_rails = 1;
                      c.tuning.timeout = 15;  // 134 ms a try
                    }};
  std::latch done(2);
  run_cluster(patient, 2, kBothWays, [&](Rank& r) {
    Endpoint& e = *r.endpoint;
    if (r.rank == 0) {
      set_port(e, 0);
      const PutRun run{r.source(1000).data(), 0, 1000};
      e.put(0, {1, 2}, {&run, 1});
      ASSERT_TRUE(e.flush());
      ASSERT_TRUE(e.poll());
      set_port(e, -1);
      poll_until(e, [&] { return e.out(0).consumed == 1; });
    } else {
      poll_until(e, [&] { return e.in(0).arrived == 1; });
      e.release(0);
      ASSERT_TRUE(e.flush());
    }
    EXPECT_TRUE(e.drain(in_seconds(10)));
    done.arrive_and_wait();
  });
}

TEST(SoftnicFailures, RegistrationThatIsRefusedNamesLimitSizeAndTotal) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  auto refused = [] {
    use_softnic("memlock=1m");
    auto e = make_test_endpoint({"softnic"}, 0, random_secret());
    if (!e) std::fprintf(stderr, "%s\n", e.error().message.c_str());
    std::vector<std::byte> small(4096), large(2 << 20);
    if (!(*e)->register_memory(small)) std::fprintf(stderr, "4096 bytes were refused\n");
    auto r = (*e)->register_memory(large);
    std::fprintf(stderr, "%s\n", r ? "none" : r.error().message.c_str());
    ::_exit(0);
  };
  EXPECT_EXIT(refused(), ::testing::ExitedWithCode(0),
              "cannot register 2097152 bytes of memory with softnic0, 8192 bytes are registered already; the limit of "
              "locked memory .RLIMIT_MEMLOCK. is");
}

/// All puts of one call over `links`, as fast as credits allow; returns rank 0's counters.
EndpointCounters stream(const Net& net, const std::vector<LinkPlan>& links, uint64_t puts, size_t bytes) {
  EndpointCounters counters;
  run_cluster(net, 2, links, [&](Rank& r) {
    Endpoint& e = *r.endpoint;
    const std::span<std::byte> data = r.source(bytes);
    const PutRun run{data.data(), 0, bytes};
    poll_until(e, [&] {
      bool done = true;
      for (size_t i = 0; i < r.outs; ++i) {
        while (e.out(i).posted < puts && e.out(i).posted - e.out(i).consumed < kMaxPutsInFlight)
          e.put(i, {1, 2}, {&run, 1});
        done &= e.out(i).consumed == puts;
      }
      for (size_t i = 0; i < r.ins; ++i) {
        while (e.in(i).released < e.in(i).arrived) e.release(i);
        done &= e.in(i).released == puts;
      }
      EXPECT_TRUE(e.flush());
      return done;
    });
    if (r.rank == 0) counters = e.counters();
    EXPECT_TRUE(e.drain(in_seconds(10)));
  });
  return counters;
}

std::vector<LinkPlan> channels(uint16_t n, size_t inbox) {
  std::vector<LinkPlan> links;
  for (uint16_t c = 0; c < n; ++c) {
    links.push_back({{c, 0, 0, 1}, inbox});
    links.push_back({{c, 0, 1, 0}, inbox});
  }
  return links;
}

Net one_rail() {
  return {"softnic", [](verbs::VerbsConfig& c) { c.rails.max_rails = 1; }};
}

TEST(SoftnicCounters, ManyPutsShareADoorbellAndFewRequestsAreSignalled) {
  // How much gathers depends on when the threads get a core: on a busy machine once in a while too little.
  double together = 0, unsignalled = 0;
  for (int tries = 0; tries < 10 && (together < 8 || unsignalled < 8); ++tries) {
    const EndpointCounters c = stream(one_rail(), channels(4, 4096), 1000, 4096);
    EXPECT_EQ(c.puts, 4000u);
    EXPECT_EQ(c.rail_bytes[0], 4000u * 4096);
    together = static_cast<double>(c.puts) / static_cast<double>(c.doorbells);
    unsignalled = static_cast<double>(c.work_requests) / static_cast<double>(c.signalled_completions);
  }
  EXPECT_GE(together, 8.0);
  EXPECT_GE(unsignalled, 8.0);
}

TEST(SoftnicCounters, ABatchOfOneRingsForEveryRequest) {
  const Net net{"softnic", [](verbs::VerbsConfig& c) {
                  c.rails.max_rails = 1;
                  c.rules.batch = 1;
                }};
  const EndpointCounters c = stream(net, channels(1, 4096), 200, 4096);
  EXPECT_EQ(c.doorbells, c.work_requests);
}

TEST(SoftnicCounters, MemoryIsRegisteredBeforeTheFirstPutAndNeverAgain) {
  const EndpointCounters few = stream(one_rail(), channels(1, 4096), 1, 4096);
  const EndpointCounters many = stream(one_rail(), channels(1, 4096), 500, 4096);
  EXPECT_GT(few.registrations, 0u);
  EXPECT_EQ(few.registrations, many.registrations);
}

TEST(SoftnicCounters, ChannelsAreSpreadOverTheRails) {
  const EndpointCounters c = stream({"softnic"}, channels(4, 4096), 100, 4096);
  EXPECT_EQ(c.rail_bytes[0], 200u * 4096);
  EXPECT_EQ(c.rail_bytes[1], 200u * 4096);
}

TEST(SoftnicCounters, AMessageThatIsSplitUsesAllRailsOfItsChannel) {
  const Net net{"softnic", [](verbs::VerbsConfig& c) {
                  c.split = true;
                  c.qps_per_connection = 2;
                }};
  const EndpointCounters c = stream(net, channels(1, 64 << 10), 100, 64 << 10);
  EXPECT_EQ(c.rail_bytes[0], 100u * (32 << 10));
  EXPECT_EQ(c.rail_bytes[1], 100u * (32 << 10));
}

}  // namespace
}  // namespace twohop::test
