// Does twohop.hpp, included first and alone, do what it says? Four ranks held by one thread, on the installed library.
#include <twohop/twohop.hpp>

#include <array>
#include <cstdio>
#include <string>
#include <vector>

template <class C, class... Args>
concept ReducesInPlace = requires(C comm, Args... args) {
  comm.all_reduce(args...);
};

static_assert(twohop::kDataType<float> == twohopFloat32);
static_assert(twohop::kDataType<double> == twohopFloat64);
static_assert(twohop::kDataType<long long> == twohopInt64 && twohop::kDataType<unsigned long> == twohopUint64);
static_assert(twohop::kDataType<signed char> == twohopInt8 && twohop::kDataType<unsigned char> == twohopUint8);
static_assert(ReducesInPlace<twohop::Comm, std::vector<float>&>);
static_assert(ReducesInPlace<twohop::Comm, std::span<int>>);
static_assert(ReducesInPlace<twohop::Comm, std::array<double, 3>&>);
static_assert(!ReducesInPlace<twohop::Comm, const std::vector<float>&>);
static_assert(!ReducesInPlace<twohop::Comm, std::span<const int>>);
static_assert(!std::is_copy_constructible_v<twohop::Comm> && std::is_nothrow_move_constructible_v<twohop::Comm>);
static_assert(!std::is_copy_constructible_v<twohop::Stream> && std::is_nothrow_move_constructible_v<twohop::Stream>);

struct Bf16 {
  unsigned short bits;
};
template <>
inline constexpr twohopDataType_t twohop::kDataType<Bf16> = twohopBfloat16;

namespace {

constexpr int kRanks = 4;
constexpr size_t kCount = 1001;
int failures = 0;

void expect(bool condition, const char* text) {
  if (condition) return;
  std::printf("WRONG: %s\n", text);
  ++failures;
}

template <class T>
bool all_equal(const std::vector<T>& data, T value) {
  for (const T& x : data)
    if (x != value) return false;
  return true;
}

/// In a vector that grows, so that the communicators move while their group is open.
std::vector<twohop::Comm> make_comms() {
  twohopUniqueId id = twohop::Comm::unique_id();
  twohopConfig_t config = TWOHOP_CONFIG_INITIALIZER;
  config.ranks_per_node = 2;
  std::vector<twohop::Comm> comms;
  twohop::Group group;
  for (int rank = 0; rank < kRanks; ++rank) comms.emplace_back(kRanks, id, rank, config);
  group.end();
  return comms;
}

/// Runs body(comm, rank) for every rank inside one group.
template <class Body>
void together(std::vector<twohop::Comm>& comms, Body body) {
  twohop::Group group;
  for (size_t r = 0; r < comms.size(); ++r) body(comms[r], r);
  group.end();
}

template <class T>
std::vector<std::vector<T>> buffers(size_t count) {
  std::vector<std::vector<T>> all;
  for (int r = 0; r < kRanks; ++r) all.emplace_back(count, static_cast<T>(r + 1));
  return all;
}

void check_shape(std::vector<twohop::Comm>& comms) {
  for (int r = 0; r < kRanks; ++r) {
    expect(comms[r].rank() == r && comms[r].size() == kRanks, "rank and size");
    expect(comms[r].shape().nnodes == 2 && comms[r].shape().local_size == 2, "two nodes of two");
    expect(comms[r].async_error() == twohopSuccess, "healthy");
  }
}

void check_collectives(std::vector<twohop::Comm>& comms) {
  auto data = buffers<float>(kCount);
  together(comms, [&](twohop::Comm& c, size_t r) { c.all_reduce(data[r]); });
  for (auto& d : data) expect(all_equal(d, 10.0F), "all_reduce in place");

  auto send = buffers<int>(kCount * kRanks), recv = buffers<int>(kCount);
  together(comms, [&](twohop::Comm& c, size_t r) { c.reduce_scatter(send[r], recv[r], twohopMax); });
  for (auto& d : recv) expect(all_equal(d, 4), "reduce_scatter");

  auto part = buffers<double>(kCount), whole = buffers<double>(kCount * kRanks);
  together(comms, [&](twohop::Comm& c, size_t r) { c.all_gather(part[r], std::span(whole[r])); });
  for (auto& d : whole) expect(d[0] == 1 && d[kCount] == 2 && d.back() == 4, "all_gather");

  auto root = buffers<unsigned char>(kCount);
  together(comms, [&](twohop::Comm& c, size_t r) { c.broadcast(root[r], 2); });
  for (auto& d : root) expect(all_equal<unsigned char>(d, 3), "broadcast");

  std::vector<std::vector<Bf16>> halves(kRanks, std::vector<Bf16>(kCount, Bf16{0x3f80}));  // 1.0
  together(comms, [&](twohop::Comm& c, size_t r) { c.all_reduce(halves[r], twohopAvg); });
  for (auto& d : halves) expect(d[0].bits == 0x3f80 && d.back().bits == 0x3f80, "avg of a type of the user's");
  together(comms, [](twohop::Comm& c, size_t) { c.barrier(); });
}

void check_streams_and_operations(std::vector<twohop::Comm>& comms) {
  std::vector<twohop::Stream> streams(kRanks);
  std::vector<twohop::RedOp> scaled;
  for (auto& comm : comms) scaled.emplace_back(comm, 0.5F);
  auto data = buffers<float>(kCount), out = buffers<float>(kCount);
  for (int r = 0; r < kRanks; ++r) comms[r].all_reduce(data[r], out[r], scaled[r], streams[r]);
  for (auto& stream : streams) stream.synchronize();
  for (auto& d : out) expect(all_equal(d, 5.0F), "pre-multiplied sum on streams");
  for (auto& stream : streams) expect(stream.idle(), "idle after synchronize");
}

void check_exceptions(twohop::Comm& comm) {
  std::vector<float> data(8);
  try {
    comm.broadcast(data, kRanks);
    expect(false, "a root that does not exist throws");
  } catch (const twohop::Exception& e) {
    expect(e.code() == twohopInvalidArgument && !std::string(e.what()).empty(), "the exception says why");
  }
}

}  // namespace

int main() {
  try {
    std::vector<twohop::Comm> comms = make_comms();
    check_shape(comms);
    check_collectives(comms);
    check_streams_and_operations(comms);
    check_exceptions(comms[0]);
  } catch (const twohop::Exception& e) {
    std::printf("WRONG: %s\n", e.what());
    return 1;
  }
  std::printf("twohop.hpp: %d wrong\n", failures);
  return failures != 0;
}
