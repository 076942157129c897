// Nothing is counted under a sanitizer.
#include "allocation_counter.hpp"

namespace twohop::test {
std::optional<uint64_t> allocations() {
  return std::nullopt;
}
}  // namespace twohop::test
