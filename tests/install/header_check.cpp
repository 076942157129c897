// Does twohop.hpp compile alone, and does its face say what it means? Never run: the assertions are the test.
#include <twohop/twohop.hpp>

#include <array>
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

// Everything that a user may call is instantiated once.
void use(twohop::Comm& comm, std::vector<float>& data, const std::vector<float>& whole, std::vector<Bf16>& half) {
  twohop::Stream stream;
  twohop::RedOp scaled(comm, 0.5F);
  twohop::Group group;
  comm.all_reduce(data, scaled, stream);
  comm.all_reduce(whole, data);
  comm.all_reduce(half, twohopAvg);
  comm.reduce_scatter(whole, std::span(data));
  comm.all_gather(data, data);
  comm.broadcast(data, 0);
  comm.barrier(stream);
  group.end();
  stream.synchronize();
}
