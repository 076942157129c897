// What an endpoint does where its network has nothing special to offer.
#include "transport/endpoint.hpp"

namespace twohop {

Result<std::string> Endpoint::register_gpu_memory(const GpuRegion&, bool) {
  return make_error(twohopInvalidUsage, "{} moves data by the CPU, which does not reach GPU memory", name());
}

}  // namespace twohop
