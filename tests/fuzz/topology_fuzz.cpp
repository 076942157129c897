// The libFuzzer entry for everything that reads topologies.
#include "fuzz/topology_checks.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  twohop::topology::check_topology_text({reinterpret_cast<const char*>(data), size});
  return 0;
}
