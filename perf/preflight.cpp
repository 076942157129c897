// Each rank looks at its own machine; then they agree, so that all leave in order.
#include "preflight.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <functional>
#include <new>
#include <string_view>

namespace twohop::perf {
namespace {

double gib(double bytes) {
  return bytes / (1 << 30);
}

/// Ranks whose buffers share this machine's memory: virtual nodes do too.
double ranks_on_this_host(const Session& session) {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  auto hash = static_cast<double>(std::hash<std::string_view>{}(name.data()) >> 16);
  std::vector<double> all = session.gather({&hash, 1});
  return static_cast<double>(std::count(all.begin(), all.end(), hash));
}

std::string lacking_memory(const PerfOptions& options, const Session& session, size_t largest) {
  double ranks = ranks_on_this_host(session), needed = 2 * static_cast<double>(largest);
  double machine = static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
  if (ranks * needed <= machine) {
    // The system may grant less than the machine has: a limit of this process.
    void* trial = operator new(2 * largest, std::nothrow);
    operator delete(trial);
    if (trial) return "";
  }
  std::string flag = options.buckets_file.empty()
                         ? fmt::format("-e/--maxbytes {}", largest)
                         : fmt::format("--buckets {}: {} bytes", options.buckets_file, largest);
  return fmt::format(
      "{}: the send and receive buffers need {:.1f} GiB per rank, {:.1f} GiB for the {:.0f} ranks on this host, which "
      "has "
      "{:.1f} GiB (or a limit of this process is lower): give a smaller size or run fewer ranks here",
      flag, gib(needed), gib(ranks * needed), ranks, gib(machine));
}

/// Leaves a file that is there as it is.
std::string unwritable(const char* flag, const std::string& path) {
  FILE* file = std::fopen(path.c_str(), "a");
  if (!file) return fmt::format("{} {}: cannot be written: {}", flag, path, std::strerror(errno));
  std::fclose(file);
  return "";
}

}  // namespace

bool all_ranks_ready(const PerfOptions& options, const Session& session, size_t largest) {
  std::string problem = lacking_memory(options, session, largest);
  if (problem.empty() && session.rank() == 0 && !options.json_file.empty())
    problem = unwritable("--json", options.json_file);
  if (problem.empty() && session.rank() == 0 && !options.tune_file.empty())
    problem = unwritable("--tune", options.tune_file);
  if (!problem.empty())
    fmt::print(stderr, "allreduce_perf: rank {} of {}: {}\n", session.rank(), session.nranks(), problem);
  double bad = !problem.empty();
  std::vector<double> all = session.gather({&bad, 1});
  return std::count(all.begin(), all.end(), 0.0) == session.nranks();
}

}  // namespace twohop::perf
