// `twohop topo`: reads a machine, chooses rails, shows both.
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "command.hpp"
#include "topo_report.hpp"
#include "topology/compare.hpp"
#include "topology/live.hpp"
#include "topology/load.hpp"

namespace twohop::cli {
namespace {

using topology::Machine;

struct TopoOptions {
  std::string file, live_file, svg, dump;
  bool json = false, explain = false, check = false;
};

/// What is on this machine, or what --live-file says is.
Result<Machine> read_live(const TopoOptions& o) {
  return o.live_file.empty() ? topology::read_live_machine() : topology::load_machine(o.live_file);
}

/// A file alone is believed, so that it can be looked at anywhere; with --check or --live-file as the library would.
Result<Machine> read_machine(const TopoOptions& o) {
  if (o.file.empty()) return read_live(o);
  auto file = topology::load_machine(o.file);
  if (!file || !(o.check || !o.live_file.empty())) return file;
  auto live = read_live(o);
  if (!live) return live;
  return topology::reconcile(*file, *live).machine;
}

Result<> write_file(const std::string& path, const std::string& text) {
  struct Close {
    void operator()(std::FILE* f) const { std::fclose(f); }
  };
  const std::unique_ptr<std::FILE, Close> file(std::fopen(path.c_str(), "w"));
  if (!file) return system_error(errno, "cannot write {}", path);
  if (std::fwrite(text.data(), 1, text.size(), file.get()) != text.size() || std::fflush(file.get()) != 0)
    return system_error(errno, "cannot write all of {}", path);
  return {};
}

int show(const TopoOptions& o) {
  auto machine = read_machine(o);
  if (!machine) return fail(machine.error().message);
  TopoReport report;
  report.machine = std::move(*machine);
  report.paths = topology::find_paths(report.machine);
  report.choice = topology::choose_rails(report.machine, report.paths);
  if (!o.svg.empty())
    if (auto written = write_file(o.svg, topo_svg(report)); !written) return fail(written.error().message);
  if (!o.dump.empty())
    if (auto dumped = topology::dump_machine(report.machine, o.dump); !dumped) return fail(dumped.error().message);
  return print(o.json ? topo_json(report) : topo_text(report, o.explain));
}

}  // namespace

std::function<int()> add_topo(CLI::App& app) {
  auto o = std::make_shared<TopoOptions>();
  app.add_option("--file", o->file,
                 "NCCL XML, hwloc XML, nvidia-smi topo -m, or JSON of ours, instead of this machine");
  app.add_flag("--check", o->check,
               "Compare --file with this machine, and use what both allow, as TWOHOP_TOPO_FILE does");
  app.add_option("--live-file", o->live_file, "Compare --file with the machine in this file instead");
  app.add_flag("--json", o->json, "For programs: gpus, rails, assignment, rejected, warnings and more");
  app.add_flag("--explain", o->explain, "Also how GPUs reach each other, and notes");
  app.add_option("--svg", o->svg, "Also draw a picture into this file");
  app.add_option("--dump", o->dump, "Also write the machine into this file: NCCL XML where it ends in .xml, else JSON");
  app.footer("Ends with 0 when the machine could be read, whatever was found in it; 1 when not; 2 for wrong usage.");
  return [o] { return show(*o); };
}

}  // namespace twohop::cli
