// `twohop simulate`: time against size and number of nodes, for clusters that one does not have. Tables and charts.
#include <fmt/format.h>

#include <unistd.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdio>
#include <map>

#include "command.hpp"
#include "plan_setup.hpp"
#include "plot_svg.hpp"
#include "topology/text.hpp"

namespace twohop::cli {
namespace {

struct Options {
  PlanOptions plan;
  std::string nodes = "2,4,8,16,32,64,128,256,512,1024", bytes = "4K,64K,1M,16M,64M,256M,1G", plot;
  bool csv = false;
};

struct Sweep {
  std::vector<int> nodes;
  std::vector<uint64_t> bytes;
  std::vector<const Algorithm*> algorithms;
  std::map<std::tuple<int, uint64_t, const Algorithm*>, double> times_us;
  double at(int n, uint64_t b, const Algorithm* a) const { return times_us.at({n, b, a}); }
};

Result<Sweep> read_axes(const Options& o) {
  Sweep sweep;
  for (const std::string_view n : topology::split(o.nodes, ',')) {
    const auto number = parse_bytes(std::string(n));
    if (!number || *number < 1 || *number > 65536)
      return make_error(twohopInvalidArgument, "--nodes {}: accepted is a list of numbers from 1 to 65536", o.nodes);
    sweep.nodes.push_back(static_cast<int>(*number));
  }
  for (const std::string_view b : topology::split(o.bytes, ',')) {
    const auto number = parse_bytes(std::string(b));
    if (!number)
      return make_error(twohopInvalidArgument, "--bytes {}: accepted is a list of sizes, as 64K,1M", o.bytes);
    sweep.bytes.push_back(*number);
  }
  return sweep;
}

void show_progress(int nodes, const std::string& what) {
  if (isatty(STDERR_FILENO)) fmt::print(stderr, "\r\033[K{} nodes, {}", nodes, what);
  std::fflush(stderr);
}

void run_nodes(const PlanSetup& setup, int ranks_per_node, int nodes, Sweep& sweep) {
  const auto cluster = setup.cluster(nodes, ranks_per_node);
  Predictor predictor(cluster, setup.model, memory_limits(*cluster, setup.memory));
  for (const Algorithm* a : sweep.algorithms) {
    if (!a->supports(predictor.cluster(), setup.collective)) continue;
    show_progress(nodes, std::string(a->name));
    const Choice choice{a, setup.space.max_chunk_bytes, setup.space.max_channels, setup.space.batch};
    for (uint64_t b : sweep.bytes)
      sweep.times_us[{nodes, b, a}] = predictor.predict(choice, setup.collective, b, {100'000}).time_us;
  }
}

std::string table(const Sweep& s, const Algorithm* a) {
  std::string text = fmt::format("{}\n{:>8}", a->name, "nodes");
  for (uint64_t b : s.bytes) text += fmt::format(" {:>10}", format_bytes(static_cast<double>(b)));
  text += "\n";
  for (int n : s.nodes) {
    text += fmt::format("{:>8}", n);
    for (uint64_t b : s.bytes) text += fmt::format(" {:>10}", format_time(s.at(n, b, a)));
    text += "\n";
  }
  return text + "\n";
}

std::string ratio_table(const Sweep& s, const Algorithm* a, const Algorithm* b) {
  std::string text = fmt::format("time of {} / time of {}\n{:>8}", b->name, a->name, "nodes");
  for (uint64_t bytes : s.bytes) text += fmt::format(" {:>10}", format_bytes(static_cast<double>(bytes)));
  text += "\n";
  for (int n : s.nodes) {
    text += fmt::format("{:>8}", n);
    for (uint64_t bytes : s.bytes) text += fmt::format(" {:>10.2f}", s.at(n, bytes, b) / s.at(n, bytes, a));
    text += "\n";
  }
  return text + "\n";
}

std::string csv(const Sweep& s) {
  std::string text = "algorithm,nodes,bytes,time_us\n";
  for (const Algorithm* a : s.algorithms)
    for (int n : s.nodes)
      for (uint64_t b : s.bytes) text += fmt::format("{},{},{},{:.3f}\n", a->name, n, b, s.at(n, b, a));
  return text;
}

Result<> plots(const Options& o, const Sweep& s) {
  const int most = s.nodes.back();
  Plot by_size{fmt::format("{} on {} x {} ranks", o.plan.collective, most, o.plan.ranks_per_node),
               "bytes of the buffer",
               true,
               {}};
  Plot by_nodes{fmt::format("{} with {} ranks a node", o.plan.collective, o.plan.ranks_per_node), "nodes", false, {}};
  for (const Algorithm* a : s.algorithms) {
    PlotLine line{std::string(a->name), {}};
    for (uint64_t b : s.bytes)
      if (b > 0) line.points.emplace_back(static_cast<double>(b), s.at(most, b, a));
    by_size.lines.push_back(std::move(line));
    for (uint64_t b : {s.bytes.front(), s.bytes[s.bytes.size() / 2], s.bytes.back()}) {
      PlotLine against{fmt::format("{}, {}", a->name, format_bytes(static_cast<double>(b))), {}};
      for (int n : s.nodes) against.points.emplace_back(n, s.at(n, b, a));
      if (by_nodes.lines.empty() || by_nodes.lines.back().name != against.name) by_nodes.lines.push_back(against);
    }
  }
  if (auto done = write_text(o.plot + "-size.svg", plot_svg(by_size)); !done) return done;
  return write_text(o.plot + "-nodes.svg", plot_svg(by_nodes));
}

int report(const Options& o, const Sweep& s) {
  if (isatty(STDERR_FILENO)) fmt::print(stderr, "\r\033[K");
  std::string text;
  if (o.csv) {
    text = csv(s);
  } else {
    for (const Algorithm* a : s.algorithms) text += table(s, a);
    for (size_t i = 1; i < s.algorithms.size(); ++i) text += ratio_table(s, s.algorithms[0], s.algorithms[i]);
  }
  const int code = print(text);
  if (code != kOk || o.plot.empty()) return code;
  const auto drawn = plots(o, s);
  return drawn ? kOk : fail(fmt::format("--plot {}", drawn.error().message));
}

int simulate_all(Options o) {
  auto sweep = read_axes(o);
  if (!sweep) return fail(sweep.error().message), kUsage;
  o.plan.nodes = *std::max_element(sweep->nodes.begin(), sweep->nodes.end());
  auto setup = check_plan_options(o.plan);
  if (!setup) return fail(setup.error().message), kUsage;
  // Those that fit every number of nodes.
  for (const Algorithm* a : setup->space.algorithms)
    if (std::all_of(sweep->nodes.begin(), sweep->nodes.end(),
                    [&](int n) { return a->supports(*setup->cluster(n, o.plan.ranks_per_node), setup->collective); }))
      sweep->algorithms.push_back(a);
  if (sweep->algorithms.empty()) return fail("no algorithm of --algo fits all of --nodes"), kUsage;
  for (int n : sweep->nodes) run_nodes(*setup, o.plan.ranks_per_node, n, *sweep);
  return report(o, *sweep);
}

}  // namespace

std::function<int()> add_simulate(CLI::App& app) {
  static Options o;
  o.plan.ranks_per_node = 8;
  o.plan.algo = "two-hop,flat";
  app.add_option("--nodes", o.nodes, "Numbers of nodes, comma separated")->capture_default_str();
  app.add_option("--ranks-per-node", o.plan.ranks_per_node, "Ranks on each node")->capture_default_str();
  app.add_option("--bytes", o.bytes, "Sizes, comma separated")->capture_default_str();
  add_plan_options(app, o.plan);
  app.add_option("--plot", o.plot, "Write charts into the files PLOT-size.svg and PLOT-nodes.svg");
  app.add_flag("--csv", o.csv, "Comma separated values instead of tables");
  return [] { return simulate_all(o); };
}

}  // namespace twohop::cli
