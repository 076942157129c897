// What does the command line of allreduce_perf ask for? nccl-tests' flags and defaults, plus twohop's own.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "twohop/twohop.h"

namespace twohop::perf {

/// How a rank's own times become the one that is printed (-a).
enum class Average { kRank0 = 0, kMean = 1, kMin = 2, kMax = 3 };

struct PerfOptions {
  size_t min_bytes = 32 << 20, max_bytes = 32 << 20, step_bytes = 1 << 20;
  size_t step_factor = 1;  // 1: step by step_bytes
  int iters = 20, warmup = 1, checks = 1, cycles = 1;
  bool per_iteration = false, verbs = false, device = false;
  bool registered = false;  // the buffers, with every communicator
  Average average = Average::kMean;
  double timeout_s = 0;
  int ranks_per_node = 0;
  std::vector<std::string> ops{"sum"}, types{"float"}, schemes{"auto"};
  std::string json_file, buckets_file, tune_file;
  std::string baseline;  // "nccl" or none
};

/// Why there is nothing to run: --help (exit_code 0, text for stdout) or a bad argument (2, text for stderr).
struct ParseStop {
  int exit_code = 0;
  std::string text;
};

std::variant<PerfOptions, ParseStop> parse_options(int argc, const char* const* argv);

/// "8", "1K", "16M", "1.5G" in powers of 1024; nullopt if it is none of these.
std::optional<size_t> parse_size(const std::string& text);

/// The sizes of a sweep, smallest first.
std::vector<size_t> sweep(const PerfOptions& options);

/// The bucket sizes in `text`: one number of bytes per line, # begins a comment. The string is an error that names the
/// line.
std::variant<std::vector<size_t>, std::string> parse_buckets(const std::string& text);

}  // namespace twohop::perf
