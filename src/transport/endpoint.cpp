// What an endpoint does where its network has nothing special to offer.
#include "transport/endpoint.hpp"

#include <algorithm>
#include <bit>

namespace twohop {

void add(EndpointCounters& to, const EndpointCounters& from) {
  using Words = std::array<uint64_t, sizeof(EndpointCounters) / sizeof(uint64_t)>;
  static_assert(sizeof(Words) == sizeof(EndpointCounters), "counts only");
  const uint64_t rails = std::max(to.rails, from.rails);
  auto sum = std::bit_cast<Words>(to);
  const auto more = std::bit_cast<Words>(from);
  for (size_t i = 0; i < sum.size(); ++i) sum[i] += more[i];
  to = std::bit_cast<EndpointCounters>(sum);
  to.rails = rails;
}

Result<std::string> Endpoint::register_gpu_memory(const GpuRegion&, bool) {
  return make_error(twohopInvalidUsage, "{} moves data by the CPU, which does not reach GPU memory", name());
}

}  // namespace twohop
