// Prints the table of TWOHOP_* variables as Markdown, for the README.
#include <cstdio>

#include "base/options.hpp"

int main() {
  std::fputs(twohop::options_table().c_str(), stdout);
  return 0;
}
