// See plan_setup.hpp.
#include "plan_setup.hpp"

#include <CLI/CLI.hpp>
#include <cmath>
#include <fstream>
#include <sstream>

#include "collectives/plan/selection.hpp"

namespace twohop::cli {
namespace {

constexpr int kMaxRanks = 65536;

Result<NetworkModel> load_model(const std::string& name) {
  if (const NetworkModel* known = find_builtin_model(name)) return *known;
  auto text = read_text(name);
  if (!text) {
    std::string names;
    for (const NetworkModel& m : builtin_models()) names += m.name + ", ";
    return make_error(twohopInvalidArgument, "--model {}: neither a built-in model ({}nor a file that can be read",
                      name, names);
  }
  auto model = parse_model(*text);
  if (!model) return make_error(twohopInvalidArgument, "--model {}: {}", name, model.error().message);
  return model;
}

Result<uint64_t> bytes_of(const char* option, const std::string& text, uint64_t least) {
  const auto bytes = parse_bytes(text);
  if (bytes && *bytes >= least) return *bytes;
  return make_error(twohopInvalidArgument, "{} {}: accepted is a size of at least {} bytes, as 64K, 1M, 64MB", option,
                    text, least);
}

}  // namespace

void add_plan_options(CLI::App& app, PlanOptions& o) {
  app.add_option("--model", o.model, "Network model: a file (from calibrate), or host, gpu, tcp, softnic")
      ->capture_default_str();
  app.add_option("--rails", o.rails, "Rails of each node; 0: the model's")->check(CLI::Range(0, 64));
  app.add_option("--algo", o.algo, "Algorithms to look at, as TWOHOP_ALGO has them")->capture_default_str();
  app.add_option("--collective", o.collective, "AllReduce, ReduceScatter, AllGather, Broadcast")->capture_default_str();
  app.add_option("--channels", o.channels, "Channels, at most")->check(CLI::Range(1, 16))->capture_default_str();
  app.add_option("--chunk", o.chunk, "Chunk bytes, at most")->capture_default_str();
  app.add_option("--buffsize", o.buffer, "Window bytes per channel, as TWOHOP_BUFFSIZE")->capture_default_str();
}

std::shared_ptr<const Cluster> PlanSetup::cluster(int nodes, int ranks_per_node) const {
  std::vector<int> key(static_cast<size_t>(nodes) * static_cast<size_t>(ranks_per_node));
  for (size_t i = 0; i < key.size(); ++i) key[i] = static_cast<int>(i) / ranks_per_node;
  return std::make_shared<Cluster>(make_cluster(key));
}

Result<PlanSetup> check_plan_options(const PlanOptions& o) {
  PlanSetup setup;
  if (o.nodes < 1 || o.ranks_per_node < 1 || int64_t{o.nodes} * o.ranks_per_node > kMaxRanks)
    return make_error(twohopInvalidArgument, "--nodes {} --ranks-per-node {}: accepted are 1 to {} ranks in all",
                      o.nodes, o.ranks_per_node, kMaxRanks);
  auto model = load_model(o.model);
  if (!model) return model.error();
  setup.model = std::move(*model);
  if (o.rails > 0) setup.model.rails = o.rails;
  auto chunk = bytes_of("--chunk", o.chunk, kChunkAlign), buffer = bytes_of("--buffsize", o.buffer, 4096);
  if (!chunk) return chunk.error();
  if (!buffer) return buffer.error();
  setup.memory = {*buffer, *chunk, o.channels};
  setup.space.max_chunk_bytes = memory_limits(*setup.cluster(o.nodes, o.ranks_per_node), setup.memory).chunk_bytes;
  setup.space.max_channels = o.channels;
  bool known = false;
  for (Collective c : kCollectives)
    if (o.collective == collective_name(c)) setup.collective = c, known = true;
  if (!known)
    return make_error(twohopInvalidArgument,
                      "--collective {}: accepted are AllReduce, ReduceScatter, AllGather, Broadcast", o.collective);
  auto selection = Selection::parse(o.algo);
  if (!selection) return make_error(twohopInvalidArgument, "--algo {}: {}", o.algo, selection.error().message);
  setup.space.algorithms = selection->allowed(*setup.cluster(o.nodes, o.ranks_per_node), setup.collective);
  if (setup.space.algorithms.empty())
    return make_error(twohopInvalidArgument, "--algo {}: none of them can do {} on {} nodes", o.algo, o.collective,
                      o.nodes);
  return setup;
}

std::optional<uint64_t> parse_bytes(const std::string& text) {
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  if (end == text.c_str() || !std::isfinite(number) || number < 0) return std::nullopt;
  std::string unit(end);
  double base = 1024;
  if (unit.size() == 2 && unit[1] == 'B') base = 1000;
  if (unit.size() == 3 && unit.substr(1) != "iB") return std::nullopt;
  if (unit.size() > 3 || (unit.size() == 2 && unit[1] != 'B')) return std::nullopt;
  double factor = 1;
  if (!unit.empty() && unit != "B") {
    const size_t power = std::string("KMGT").find(unit[0]);
    if (power == std::string::npos) return std::nullopt;
    factor = std::pow(base, static_cast<double>(power) + 1);
  }
  if (number * factor > 1e16) return std::nullopt;
  return static_cast<uint64_t>(number * factor);
}

std::string format_bytes(double bytes) {
  constexpr const char *kBinary[] = {"KiB", "MiB", "GiB", "TiB"}, *kDecimal[] = {"KB", "MB", "GB", "TB"};
  std::string whole, best = fmt::format("{:.0f} B", bytes);
  if (bytes < 1000) return best;
  double two = bytes, ten = bytes;
  for (int i = 0; i < 4; ++i) {
    two /= 1024;
    ten /= 1000;
    for (auto [value, unit] : {std::pair{ten, kDecimal[i]}, {two, kBinary[i]}}) {
      if (value < 1 || value >= 2000) continue;
      best = fmt::format("{:.4g} {}", value, unit);
      if (std::abs(value - std::round(value)) < 1e-9) whole = best;
    }
  }
  return whole.empty() ? best : whole;
}

std::string format_time(double us) {
  if (us < 1000) return fmt::format("{:.3g} us", us);
  if (us < 1e6) return fmt::format("{:.3g} ms", us / 1e3);
  return fmt::format("{:.3g} s", us / 1e6);
}

Result<std::string> read_text(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  if (!file) return make_error(twohopInvalidArgument, "{}: cannot be read", path);
  return text.str();
}

Result<> write_text(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  file.close();
  if (!file) return make_error(twohopSystemError, "{}: cannot be written", path);
  return {};
}

}  // namespace twohop::cli
