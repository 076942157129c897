// The device loop and the host back end give equal bits: the same calls on the same cluster with the same layout, on
// values that round, overflow and are not numbers.
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <thread>

#include "bootstrap/unique_id.hpp"
#include "collectives/exec/communicator.hpp"
#include "collectives/exec/run.hpp"
#include "loop_world.hpp"

namespace twohop {
namespace {

constexpr uint64_t kCount = 4001;
constexpr int kRanks = 4;
constexpr int64_t kBuffBytes = 256 << 10, kChunkBytes = 4096;

struct Case {
  int ranks_per_node;
  const char* algo;
  twohopDataType_t type;
  Operation op;
};

/// Random elements: of floats with a wide exponent those around one, of the others any pattern.
std::vector<std::byte> elements(twohopDataType_t type, int rank) {
  std::mt19937_64 random(static_cast<uint64_t>(rank) * 7919 + static_cast<uint64_t>(type));
  std::vector<std::byte> data(kCount * type_size(type));
  const auto fill = [&](auto next) {
    for (size_t i = 0; i < kCount; ++i) {
      const auto x = next();
      std::memcpy(data.data() + i * sizeof x, &x, sizeof x);
    }
  };
  std::normal_distribution<double> normal;
  if (type == twohopFloat32)
    fill([&] { return static_cast<float>(normal(random)); });
  else if (type == twohopFloat64)
    fill([&] { return normal(random); });
  else if (type == twohopBfloat16)
    fill([&] { return static_cast<uint16_t>((random() & 0x80ff) | 0x3f00); });
  else
    for (auto& b : data) b = static_cast<std::byte>(random());
  return data;
}

Call call_of(const Case& c, int rank, const std::vector<std::byte>& from, std::vector<std::byte>& to) {
  Call call;
  call.send = from.data();
  call.recv = to.data();
  call.count = kCount;
  call.type = c.type;
  call.op = c.op;
  if (c.op == Operation::kPreMulSum) call.pre_multiplier = reciprocal(c.type, static_cast<uint64_t>(3 + rank));
  return call;
}

using Outputs = std::vector<std::vector<std::byte>>;

/// body(rank, call) on a thread per rank.
template <class Body>
Outputs outputs_of(const Case& c, Body body) {
  Outputs out(kRanks, std::vector<std::byte>(kCount * type_size(c.type)));
  std::vector<std::thread> ranks;
  for (int r = 0; r < kRanks; ++r)
    ranks.emplace_back([&, r] {
      const auto from = elements(c.type, r);
      body(r, call_of(c, r, from, out[static_cast<size_t>(r)]));
    });
  for (auto& t : ranks) t.join();
  return out;
}

Outputs on_host(const Case& c) {
  Options options;
  options.net = "tcp";
  options.buff_bytes = kBuffBytes;
  options.chunk_bytes = kChunkBytes;
  CommConfig config;
  config.algo = c.algo;
  config.nchannels = 1;
  config.ranks_per_node = c.ranks_per_node;
  config.timeout_s = 60;
  const auto id = make_unique_id(options);
  EXPECT_TRUE(id) << id.error().message;
  return outputs_of(c, [&](int rank, const Call& call) {
    auto comm = Communicator::init(*id, kRanks, rank, config, options);
    ASSERT_TRUE(comm) << comm.error().message;
    auto done = run_one(**comm, call);
    ASSERT_TRUE(done) << done.error().message;
  });
}

Outputs on_device_loop(const Case& c) {
  std::vector<int> key;
  for (int r = 0; r < kRanks; ++r) key.push_back(r / c.ranks_per_node);
  loop_test::WorldSize size;
  size.channels = 1;
  size.window_bytes = kBuffBytes / 2;
  size.inbox_bytes = kBuffBytes / 8;
  size.chunk_bytes = kChunkBytes;
  size.bytes_per_channel = LayoutLimits{}.bytes_per_channel;
  loop_test::World world(make_cluster(key), size);
  return outputs_of(c, [&](int rank, const Call& call) {
    const auto fault = world.rank(rank).run(call, *find_algorithm(c.algo));
    ASSERT_FALSE(fault) << fault->message;
  });
}

class LaneLoopBits : public testing::TestWithParam<Case> {};

TEST_P(LaneLoopBits, EqualThoseOfTheHostBackEnd) {
  const Outputs host = on_host(GetParam()), loop = on_device_loop(GetParam());
  for (int r = 0; r < kRanks; ++r) {
    EXPECT_EQ(host[0], host[static_cast<size_t>(r)]) << "rank " << r << " of the host";
    EXPECT_EQ(loop[static_cast<size_t>(r)], host[0]) << "rank " << r;
  }
}

std::string case_name(const testing::TestParamInfo<Case>& info) {
  std::string name = std::string(info.param.algo) + "_" + type_name(info.param.type) + "_pernode" +
                     std::to_string(info.param.ranks_per_node) + "_op" + std::to_string(int(info.param.op));
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}
INSTANTIATE_TEST_SUITE_P(All, LaneLoopBits,
                         testing::Values(Case{2, "two-hop", twohopFloat32, Operation::kAvg},
                                         Case{3, "two-hop", twohopBfloat16, Operation::kSum},
                                         Case{2, "two-hop", twohopFloat16, Operation::kPreMulSum},
                                         Case{3, "two-hop", twohopFloat8e4m3, Operation::kAvg},
                                         Case{2, "flat", twohopFloat8e5m2, Operation::kSum},
                                         Case{2, "flat", twohopFloat64, Operation::kAvg},
                                         Case{3, "flat-naive", twohopFloat32, Operation::kPreMulSum},
                                         Case{4, "one-shot", twohopBfloat16, Operation::kAvg},
                                         Case{4, "two-hop", twohopFloat16, Operation::kMax},
                                         Case{2, "two-hop", twohopInt8, Operation::kAvg},
                                         Case{4, "two-hop", twohopInt64, Operation::kAvg}),
                         case_name);

}  // namespace
}  // namespace twohop
