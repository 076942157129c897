// `twohop trace`: from the files of TWOHOP_TRACE, how long is the wire idle between a call's first put and its last?
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "command.hpp"
#include "plan_setup.hpp"
#include "trace_report.hpp"
#include "trace_svg.hpp"

namespace twohop::cli {
namespace {

struct Options {
  std::vector<std::string> files;
  std::string bytes, svg;
  uint64_t call = 0;
  bool json = false;
};

int draw(const Options& o, const std::vector<TraceFile>& files, uint64_t bytes) {
  const uint64_t call = o.call > 0 ? o.call : call_to_show(files[0], bytes);
  const auto written = write_text(o.svg, trace_svg(files, call));
  return written ? kOk : fail(fmt::format("--draw {}", written.error().message));
}

int trace(const Options& o) {
  std::optional<uint64_t> bytes = o.bytes.empty() ? 0 : parse_bytes(o.bytes);
  if (!bytes) return fail(fmt::format("--bytes {}: accepted is a size, as 64K, 1M, 64MB", o.bytes)), kUsage;
  std::vector<TraceFile> files;
  for (const std::string& path : o.files) {
    auto file = read_trace(path);
    if (!file) return fail(file.error().message);
    if (file->left_out > 0)
      fmt::print(stderr, "twohop: {}: {} events were left out; what follows is of those that it has\n", path,
                 file->left_out);
    files.push_back(std::move(*file));
  }
  const auto rows = wire_rows(files, *bytes);
  const int code = print(o.json ? trace_json(rows) : trace_text(rows));
  return code == kOk && !o.svg.empty() ? draw(o, files, *bytes) : code;
}

}  // namespace

std::function<int()> add_trace(CLI::App& app) {
  auto options = std::make_shared<Options>();
  app.add_option("files", options->files, "Files that TWOHOP_TRACE wrote, one of each rank")->required();
  app.add_option("--bytes", options->bytes, "Only calls of so many bytes");
  app.add_option("--draw", options->svg, "Writes a picture of one call, as SVG");
  app.add_option("--call", options->call, "Which call to draw; else the last of the largest");
  app.add_flag("--json", options->json, "The table as JSON");
  return [options] { return trace(*options); };
}

}  // namespace twohop::cli
