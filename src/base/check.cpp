// See check.hpp.
#include "base/check.hpp"

#include <cstdio>
#include <cstdlib>

namespace twohop {

void check_failed(const char* file, int line, const char* condition, const std::string& values) {
  std::fprintf(stderr, "twohop: internal error at %s:%d: %s is false: %s\n", file, line, condition, values.c_str());
  std::abort();
}

}  // namespace twohop
