// File names with %h, %p and %r: of TWOHOP_DEBUG_FILE, TWOHOP_TRACE and TWOHOP_TOPO_DUMP_FILE.
#include "base/file_name.hpp"
#include "fuzz/input.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  twohop::fuzz::Input input(data, size);
  const int rank = static_cast<int>(input.u8()) - 1;
  const std::string pattern(input.text());
  const std::string name = twohop::expand_file_name(pattern, rank);
  if (pattern.find('%') == std::string::npos && name != pattern) twohop::fuzz::fail("a plain name was changed", name);
  if (name.find("%p") != std::string::npos && pattern.find("%%") == std::string::npos &&
      pattern.find("%h") == std::string::npos)
    twohop::fuzz::fail("a process id is missing", name);
  return 0;
}
