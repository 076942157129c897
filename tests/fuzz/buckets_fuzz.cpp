// Bucket files of allreduce_perf. A file is read in full or its error names a line.
#include "fuzz/input.hpp"
#include "perf_options.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  twohop::fuzz::Input input(data, size);
  const auto parsed = twohop::perf::parse_buckets(std::string(input.text()));
  if (const auto* error = std::get_if<std::string>(&parsed); error && error->empty())
    twohop::fuzz::fail("an error without a word");
  return 0;
}
