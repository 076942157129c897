// The device loop on host threads: every collective and scheme on several shapes, types and operations, with every
// element checked, calls that follow each other without a barrier, mismatches and a stop.
#include "collectives/exec/loop/lane_loop.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "loop_world.hpp"

namespace twohop {
namespace {

using loop_test::HostMemory;
using loop_test::World;
using loop_test::WorldSize;

Cluster cluster_of(const std::vector<int>& sizes) {
  std::vector<int> key;
  for (size_t node = 0; node < sizes.size(); ++node) key.insert(key.end(), sizes[node], static_cast<int>(node));
  return make_cluster(key);
}

uint64_t seed() {
  const char* given = std::getenv("TEST_SEED");
  static const uint64_t value = given != nullptr ? std::strtoull(given, nullptr, 0) : std::random_device{}();
  return value;
}

/// Element values that every type holds exactly, and whose sums and products over a few ranks it holds too.
int value(Operation op, int rank, size_t i) {
  const auto x = static_cast<unsigned>(i * 7 + static_cast<size_t>(rank) * 13 + i / 5);
  return op == Operation::kProd ? 1 + static_cast<int>(x % 2) : static_cast<int>(x % 2 + (x % 11 == 0));
}

void set(twohopDataType_t type, std::byte* at, size_t i, int v) {
  static const uint16_t kHalf[] = {0, 0x3c00, 0x4000}, kBfloat[] = {0, 0x3f80, 0x4000};
  static const uint8_t kE4m3[] = {0, 0x38, 0x40}, kE5m2[] = {0, 0x3c, 0x40};
  const auto write = [&](auto x) { std::memcpy(at + i * sizeof x, &x, sizeof x); };
  switch (type) {
    case twohopFloat16:
      return write(kHalf[v]);
    case twohopBfloat16:
      return write(kBfloat[v]);
    case twohopFloat8e4m3:
      return write(kE4m3[v]);
    case twohopFloat8e5m2:
      return write(kE5m2[v]);
    case twohopFloat32:
      return write(static_cast<float>(v));
    case twohopFloat64:
      return write(static_cast<double>(v));
    default:
      return type_size(type) == 1   ? write(static_cast<uint8_t>(v))
             : type_size(type) == 4 ? write(static_cast<uint32_t>(v))
                                    : write(static_cast<uint64_t>(v));
  }
}

double get(twohopDataType_t type, const std::byte* at, size_t i) {
  const std::byte* e = at + i * type_size(type);
  const Scalar s = load_scalar(e, type);
  if (type == twohopFloat64) return s.f64;
  return is_floating(type) ? s.f32 : static_cast<double>(s.bits);
}

double expected(Operation op, int nranks, size_t i) {
  double result = value(op, 0, i);
  for (int r = 1; r < nranks; ++r) {
    const double x = value(op, r, i);
    if (op == Operation::kProd)
      result *= x;
    else if (op == Operation::kMax)
      result = std::max(result, x);
    else if (op == Operation::kMin)
      result = std::min(result, x);
    else
      result += x;
  }
  return result;
}

/// One rank's buffers for a call, and what must be in them afterwards.
class Buffers {
 public:
  Buffers(Call call, int rank, int nranks, bool in_place) : call_(call), rank_(rank), nranks_(nranks) {
    const size_t blocks = static_cast<size_t>(nranks), size = type_size(call.type);
    const size_t send = call.count * (call.collective == Collective::kReduceScatter ? blocks : 1);
    recv_count_ = call.count * (call.collective == Collective::kAllGather ? blocks : 1);
    a_.resize(std::max(send, recv_count_) * size + 16);
    b_.resize(std::max(send, recv_count_) * size + 16, std::byte{0xa5});
    call_.send = a_.data();
    call_.recv = in_place ? a_.data() : b_.data();
    std::byte* from = a_.data();
    if (in_place && call.collective == Collective::kReduceScatter)
      call_.recv = a_.data() + static_cast<size_t>(rank) * call.count * size;
    if (in_place && call.collective == Collective::kAllGather) {
      from = a_.data() + static_cast<size_t>(rank) * call.count * size;
      call_.send = from;
    }
    for (size_t i = 0; i < send; ++i) set(call.type, from, i, value(call.op, rank, i));
  }
  /// The memory is the user's again, and is used for something else.
  ~Buffers() {
    std::fill(a_.begin(), a_.end(), std::byte{0xee});
    asm volatile("" ::"r"(a_.data()) : "memory");
  }
  const Call& call() const { return call_; }

  void check(const std::string& what) const {
    for (size_t i = 0; i < recv_count_; ++i)
      ASSERT_EQ(get(call_.type, static_cast<const std::byte*>(call_.recv), i), want(i))
          << what << ": rank " << rank_ << " element " << i << " of " << recv_count_;
  }

 private:
  double want(size_t i) const {
    switch (call_.collective) {
      case Collective::kAllReduce:
        return expected(call_.op, nranks_, i);
      case Collective::kReduceScatter:
        return expected(call_.op, nranks_, static_cast<size_t>(rank_) * call_.count + i);
      case Collective::kAllGather:
        return value(call_.op, static_cast<int>(i / call_.count), i % call_.count);
      case Collective::kBroadcast:
        return value(call_.op, call_.root, i);
    }
    return -1;
  }

  Call call_;
  int rank_, nranks_;
  size_t recv_count_ = 0;
  std::vector<std::byte> a_, b_;
};

struct Planned {
  Call call;
  const Algorithm* algorithm;
  bool in_place;
  bool registered = false;  // on most ranks
  std::string text() const {
    return std::string(algorithm->name) + " " + describe_signature(signature(call)) + (in_place ? " in place" : "") +
           (registered ? " registered" : "");
  }
};

/// Every rank runs all calls, one after the other, at its own pace.
void run_calls(World& world, const std::vector<Planned>& calls) {
  std::vector<std::thread> ranks;
  for (int r = 0; r < world.nranks(); ++r)
    ranks.emplace_back([&, r] {
      for (size_t i = 0; i < calls.size(); ++i) {
        const Planned& p = calls[i];
        Buffers buffers(p.call, r, world.nranks(), p.in_place);
        const bool registered = p.registered && (static_cast<size_t>(r) + i) % 3 != 0;
        const auto fault = world.rank(r).run(buffers.call(), *p.algorithm, registered);
        ASSERT_FALSE(fault) << fault->message;
        buffers.check(p.text());
        if (testing::Test::HasFatalFailure()) return world.rank(r).stop();
      }
    });
  for (auto& t : ranks) t.join();
}

constexpr Operation kOps[] = {Operation::kSum, Operation::kProd, Operation::kMax, Operation::kMin};

Planned random_call(std::mt19937_64& random, const Cluster& cluster) {
  const auto pick = [&](int n) { return static_cast<int>(random() % static_cast<uint64_t>(n)); };
  Planned p{};
  do {
    p.algorithm = &algorithms()[static_cast<size_t>(pick(static_cast<int>(algorithms().size())))];
    p.call.collective = kCollectives[pick(4)];
  } while (!p.algorithm->supports(cluster, p.call.collective));
  p.call.type = static_cast<twohopDataType_t>(pick(TWOHOP_NUM_DATATYPES));
  p.call.op = kOps[pick(4)];
  p.call.root = p.call.collective == Collective::kBroadcast ? pick(cluster.nranks()) : 0;
  p.in_place = pick(2) == 0;
  p.registered = pick(2) == 0;
  static constexpr uint64_t kCounts[] = {0, 1, 2, 3, 7, 31, 128, 331, 1000, 2500};
  p.call.count = kCounts[pick(10)];
  return p;
}

class LaneLoopOn : public testing::TestWithParam<std::vector<int>> {};

TEST_P(LaneLoopOn, RunsRandomCallsOneAfterTheOther) {
  std::mt19937_64 random(seed());
  RecordProperty("seed", std::to_string(seed()));
  SCOPED_TRACE("TEST_SEED=" + std::to_string(seed()));
  const Cluster cluster = cluster_of(GetParam());
  WorldSize size;
  size.channels = 2;
  World world(cluster, size);
  std::vector<Planned> calls;
  for (int i = 0; i < 12; ++i) calls.push_back(random_call(random, cluster));
  run_calls(world, calls);
}

TEST_P(LaneLoopOn, ReducesEveryTypeByEveryScheme) {
  const Cluster cluster = cluster_of(GetParam());
  World world(cluster, {});
  std::vector<Planned> calls;
  int n = 0;
  for (int type = 0; type < TWOHOP_NUM_DATATYPES; ++type)
    for (const Algorithm& a : algorithms()) {
      if (!a.supports(cluster, Collective::kAllReduce) || ++n % 3 != 0) continue;  // a third of them on each shape
      Planned p{.call = {}, .algorithm = &a, .in_place = n % 2 == 0, .registered = n % 4 < 2};
      p.call.type = static_cast<twohopDataType_t>(type);
      p.call.op = kOps[n / 3 % 4];
      p.call.count = 700;
      calls.push_back(p);
    }
  run_calls(world, calls);
}

/// Data through host memory, copied by the lanes of some ranks and by the copy engines of others. With windows in host
/// memory nobody reads registered memory where it lies.
TEST_P(LaneLoopOn, CopiesThroughHostMemoryWhoeverCopies) {
  std::mt19937_64 random(seed());
  SCOPED_TRACE("TEST_SEED=" + std::to_string(seed()));
  const Cluster cluster = cluster_of(GetParam());
  for (const HostMemory host : {HostMemory::kInboxes, HostMemory::kAll})
    for (const int engine_every : {0, 1, 2}) {
      World world(cluster, {.channels = 2, .host = host, .engine_every = engine_every});
      std::vector<Planned> calls;
      for (int i = 0; i < 5; ++i) calls.push_back(random_call(random, cluster));
      Planned& first = calls.front();  // one that copies in any world
      first.algorithm = find_algorithm("two-hop");
      first.call.collective = Collective::kAllReduce;
      first.call.root = 0;
      first.call.count = 2500;
      for (Planned& p : calls) p.registered &= host == HostMemory::kInboxes;
      run_calls(world, calls);
      const bool copies = engine_every != 0 && (host == HostMemory::kAll || cluster.nnodes() > 1);
      EXPECT_TRUE(cluster.nranks() == 1 || (world.copies.copied > 0) == copies) << world.copies.copied;
      EXPECT_EQ(world.copies.copied, world.copies.started);
    }
}

std::string shape_name(const testing::TestParamInfo<std::vector<int>>& info) {
  std::string name = "nodes";
  for (int n : info.param) name += "_" + std::to_string(n);
  return name;
}
INSTANTIATE_TEST_SUITE_P(Shapes, LaneLoopOn,
                         testing::Values(std::vector<int>{1}, std::vector<int>{2}, std::vector<int>{4},
                                         std::vector<int>{1, 1}, std::vector<int>{2, 2}, std::vector<int>{3, 1},
                                         std::vector<int>{1, 2, 1}),
                         shape_name);

TEST(LaneLoop, ReportsCallsThatDoNotMatch) {
  const Cluster cluster = cluster_of({2, 1});
  World world(cluster, {});
  std::vector<std::optional<Error>> faults(3);
  std::vector<std::thread> ranks;
  std::atomic<int> told{0};
  for (int r = 0; r < 3; ++r)
    ranks.emplace_back([&, r] {
      Call call;
      call.type = twohopFloat32;
      call.count = r == 1 ? 65 : 64;
      Buffers buffers(call, r, 3, false);
      faults[r] = world.rank(r).run(buffers.call(), *find_algorithm("two-hop"));
      if (faults[r] && told.fetch_add(1) == 0)  // as the control channel would tell the others
        for (int other = 0; other < 3; ++other) world.rank(other).stop();
    });
  for (auto& t : ranks) t.join();
  int found = 0;
  for (const auto& fault : faults) {
    if (!fault) continue;
    ++found;
    EXPECT_EQ(fault->code, twohopInvalidUsage);
    EXPECT_NE(fault->message.find("count=65"), std::string::npos) << fault->message;
    EXPECT_NE(fault->message.find("count=64"), std::string::npos) << fault->message;
  }
  EXPECT_GT(found, 0);
}

/// What a kernel has asked for may still be on its way to the user's memory when the call is stopped.
TEST(LaneLoop, EndsNotBeforeTheCopiesThatItHasAskedFor) {
  World world(cluster_of({1}), {.host = HostMemory::kAll, .engine_every = 1});
  Call call;
  call.type = twohopInt32;
  call.count = 1000;
  call.collective = Collective::kAllReduce;
  Buffers buffers(call, 0, 1, false);
  world.copies.held = true;
  std::atomic<bool> left{false};
  std::thread kernel([&] {
    EXPECT_FALSE(world.rank(0).run(buffers.call(), *find_algorithm("two-hop")));
    left = true;
  });
  while (world.copies.started == 0) std::this_thread::yield();
  world.rank(0).stop();
  // As long as a kernel that does not wait would need many times over to see that it is stopped.
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(100);
  while (!left && std::chrono::steady_clock::now() < until) std::this_thread::yield();
  EXPECT_FALSE(left);
  world.copies.held = false;
  kernel.join();
  EXPECT_EQ(world.copies.copied, world.copies.started);
}

TEST(LaneLoop, EndsWhenItIsStopped) {
  const Cluster cluster = cluster_of({2, 2});
  World world(cluster, {});
  Call call;
  call.type = twohopInt32;
  call.count = 1000;
  Buffers buffers(call, 0, 4, false);
  std::thread alone([&] {  // nobody else calls
    EXPECT_FALSE(world.rank(0).run(buffers.call(), *find_algorithm("two-hop")));
  });
  world.rank(0).stop();
  alone.join();
}

}  // namespace
}  // namespace twohop
