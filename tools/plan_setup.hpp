// What `twohop plan` and `twohop simulate` are asked about: cluster, sizes, model; and numbers as text.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "collectives/plan/memory_limits.hpp"
#include "collectives/plan/model/tuner.hpp"

namespace CLI {  // whose header takes seconds to compile
class App;
}

namespace twohop::cli {

/// As given.
struct PlanOptions {
  int nodes = 2, ranks_per_node = 1, rails = 0, channels = 2;
  std::string bytes = "64M", model = "host", algo = "auto", collective = "AllReduce", chunk = "128K", buffer = "4M";
};
/// The options that both commands have.
void add_plan_options(CLI::App& app, PlanOptions& options);

/// Checked.
struct PlanSetup {
  NetworkModel model;
  TunerSpace space;
  MemorySettings memory;
  Collective collective = Collective::kAllReduce;
  std::shared_ptr<const Cluster> cluster(int nodes, int ranks_per_node) const;
};
Result<PlanSetup> check_plan_options(const PlanOptions& options);

/// "8", "64K", "1.5M", "64MB": K, M, G are powers of 1024; with B powers of 1000, with iB of 1024.
std::optional<uint64_t> parse_bytes(const std::string& text);
/// "64 MiB", "1008 MB", "8 B": the unit that leaves fewest digits.
std::string format_bytes(double bytes);
/// "12.3 us", "4.56 ms", "1.2 s".
std::string format_time(double us);
/// A file's text, or why not.
Result<std::string> read_text(const std::string& path);
Result<> write_text(const std::string& path, const std::string& text);

}  // namespace twohop::cli
