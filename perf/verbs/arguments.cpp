// See arguments.hpp.
#include "arguments.hpp"

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <optional>
#include <sstream>

namespace twohop::verbs_perf {
namespace {

constexpr uint64_t kLargestOfAll = uint64_t{1} << 23;  // perftest's -a

std::vector<std::string> items_of(const std::string& flag, const std::string& text) {
  std::vector<std::string> items;
  std::istringstream in(text);
  for (std::string item; std::getline(in, item, ',');) items.push_back(item);
  if (items.empty() || text.back() == ',') throw CLI::ValidationError(flag, "'" + text + "' has an empty item");
  return items;
}

std::optional<uint64_t> parse_bytes(const std::string& text) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, value);
  if (parsed.ec != std::errc() || !(value >= 0 && value < 1e15)) return std::nullopt;
  const std::string unit(parsed.ptr, end);
  const std::string units = "KMG";
  const size_t power = unit.empty() ? 0 : units.find(static_cast<char>(std::toupper(unit[0]))) + 1;
  if (unit.size() > 1 || (!unit.empty() && power == 0)) return std::nullopt;
  return static_cast<uint64_t>(value * std::pow(1024.0, static_cast<double>(power)));
}

uint64_t bytes_or_throw(const std::string& flag, const std::string& text) {
  const auto bytes = parse_bytes(text);
  if (!bytes) throw CLI::ValidationError(flag, text + " is not a size such as 8, 64K or 1M");
  return *bytes;
}

void add_int_list(CLI::App& app, const std::string& name, std::vector<int>& values, const std::string& help) {
  app.add_option_function<std::string>(
         name,
         [&values, name](const std::string& text) {
           values.clear();
           for (const std::string& item : items_of(name, text)) {
             int value = 0;
             const char* end = item.data() + item.size();
             const auto parsed = std::from_chars(item.data(), end, value);
             if (parsed.ec != std::errc() || parsed.ptr != end)
               throw CLI::ValidationError(name, "'" + item + "' is not a whole number");
             values.push_back(value);
           }
         },
         help)
      ->type_name("LIST");
}

void add_matrix_flags(CLI::App& app, Arguments& a) {
  Matrix& m = a.matrix;
  app.add_option_function<std::string>(
         "--op",
         [&m](const std::string& text) {
           m.ops.clear();
           for (const std::string& item : items_of("--op", text == "all" ? "write,write_imm,read,send,atomic" : text)) {
             size_t op = 0;
             while (op < 5 && item != op_name(static_cast<Op>(op))) ++op;
             if (op == 5)
               throw CLI::ValidationError("--op", item + " is not one of: write write_imm read send atomic all");
             m.ops.push_back(static_cast<Op>(op));
           }
         },
         "write,write_imm,read,send,atomic (fetch-add) or all (write)")
      ->type_name("LIST");
  app.add_option_function<std::string>(
         "-s,--size",
         [&m](const std::string& text) {
           m.sizes.clear();
           for (const std::string& item : items_of("--size", text)) m.sizes.push_back(bytes_or_throw("--size", item));
         },
         "bytes of a message (65536)")
      ->type_name("LIST");
  app.add_flag_callback(
      "-a,--all",
      [&m] {
        m.sizes.clear();
        for (uint64_t s = 2; s <= kLargestOfAll; s *= 2) m.sizes.push_back(s);
      },
      "sizes from 2 to 2^23");
  add_int_list(app, "-q,--qp", m.qps, "queue pairs on each rail (1)");
  app.add_option_function<std::string>(
         "-d,--ib-dev", [&a](const std::string& text) { a.devices = items_of("--ib-dev", text); },
         "rails: device[:port]; a+b is both at once (client: the first; server: the one of the same name, or with -d "
         "the one at the same place)")
      ->type_name("LIST");
  add_int_list(app, "-x,--gid-index", m.gids,
               "GID index of this end; -1: chosen (-1). The other end chooses one that fits");
  add_int_list(app, "-m,--mtu", m.mtus, "path MTU, 256 to 4096; 0: the smaller of the ports' (0)");
  add_int_list(app, "-I,--inline_size", m.inlines, "messages of up to so many bytes are sent inline (0)");
  add_int_list(app, "-l,--post_list", m.batches, "work requests for each doorbell (1)");
  app.add_flag_callback(
      "-b,--bidirectional", [&m] { m.directions = {true}; }, "both ends send; as --direction bi");
  app.add_option_function<std::string>(
         "--direction",
         [&m](const std::string& text) {
           m.directions.clear();
           for (const std::string& item : items_of("--direction", text)) {
             if (item != "uni" && item != "bi")
               throw CLI::ValidationError("--direction", item + " is not one of: uni bi");
             m.directions.push_back(item == "bi");
           }
         },
         "uni,bi (uni)")
      ->type_name("LIST");
  app.add_option("--repeat", m.repeats, "times the whole matrix is run (1)")->check(CLI::Range(1, 100000));
}

void add_row_flags(CLI::App& app, Arguments& a) {
  RowSpec& r = a.common;
  app.add_option("-n,--iters", r.iterations, "messages of each queue pair and sending end (1000)");
  app.add_option("-D,--duration", r.duration_s, "seconds of each row, instead of -n");
  app.add_option("-t,--tx-depth", r.tx_depth, "messages of a queue pair posted and unfinished (128)");
  app.add_option("-Q,--cq-mod", r.cq_mod, "at most so many messages between two that are signalled (64)");
  app.add_option("-u,--qp-timeout", r.timeout, "an unanswered request is sent again after 4.096 us x 2^this (14)");
  app.add_option("--retry_count", r.retries, "how often it is sent again (7)");
  app.add_option("-S,--sl", r.service_level, "service level (0)");
  app.add_option("--tclass", r.traffic_class, "traffic class of RoCE packets (0)");
  app.add_flag("-F,--CPU-freq")->description("accepted for perftest's sake, without effect")->group("");
}

void add_bound_flags(CLI::App& app, Arguments& a) {
  app.add_option("--max-time", a.max_seconds, "seconds of all rows together; what is left is not measured (120)")
      ->check(CLI::Range(0.01, 1e7))
      ->group("Bounds");
  app.add_option("--max-row-time", a.common.max_seconds, "seconds after which a row is cut short (10)")
      ->group("Bounds");
  app.add_option_function<std::string>(
         "--max-bytes", [&a](const std::string& text) { a.max_bytes = bytes_or_throw("--max-bytes", text); },
         "bytes of all rows together (16G)")
      ->type_name("SIZE")
      ->group("Bounds");
  app.add_option("--stable", a.stable_percent,
                 "ends the repeats once, after 3, all configurations vary by at most so many percent")
      ->check(CLI::Range(0.0, 1000.0))
      ->group("Bounds");
  app.add_option("--patience", a.common.patience_s, "seconds without any progress after which a row fails (30)")
      ->group("Bounds");
  app.add_option("--wait", a.wait_s, "seconds that a server waits for its client (300)")
      ->check(CLI::Range(0.1, 1e7))
      ->group("Bounds");
}

void add_end_flags(CLI::App& app, Arguments& a) {
  app.add_option("host", a.host, "of the server; without it this is the server");
  app.add_option("-p,--port", a.port, "TCP port of the server (18515); 0: any, printed")->check(CLI::Range(0, 65535));
  app.add_option("--listen", a.listen, "address that the server listens on (0.0.0.0)");
  app.add_flag("--loopback", a.loopback, "both ends here, as two processes; without an RDMA device over softnic");
  app.add_flag("--softnic", a.softnic, "over the emulated device (also TWOHOP_NET=softnic)");
}

void add_output_flags(CLI::App& app, Arguments& a) {
  app.add_option("--json,--out_json_file", a.json_file, "writes configuration, rows and summary to this file")
      ->group("Output");
  app.add_option("--csv", a.csv_file, "writes the rows to this file")->group("Output");
  app.add_option("--save-baseline", a.baseline_to, "the same as --json, for --compare")->group("Output");
  app.add_option("--compare", a.baseline_from, "compares with this file; exit code 4 if anything is slower")
      ->check(CLI::ExistingFile)
      ->group("Output");
  app.add_option("--tolerance", a.tolerance_percent, "percent by which --compare lets a row be slower (10)")
      ->check(CLI::Range(0.0, 100.0))
      ->group("Output");
}

void check_arguments(const Arguments& a) {
  if (a.loopback && !a.host.empty()) throw CLI::ValidationError("--loopback", "has both ends here: give no host");
  if (a.host.empty() && !a.loopback && a.matrix.gids.size() > 1)
    throw CLI::ValidationError("-x", "a server takes one GID index: the matrix is the client's");
  for (const RowSpec& row : expand(a.matrix, a.common))
    if (auto ok = check(row); !ok) throw CLI::ValidationError(ok.error().message);
}

}  // namespace

std::variant<Arguments, Stop> parse_arguments(int argc, const char* const* argv) {
  Arguments arguments;
  arguments.matrix.rails = {"first"};  // until the ports are known
  CLI::App app{
      "Measures RC queue pairs between two processes, row by row of a matrix, over twohop's own transport objects, and "
      "verifies "
      "the data. verbs_perf waits as server, verbs_perf HOST measures; verbs_perf --loopback is both. Values in "
      "LISTs are joined by commas. Anybody who reaches the server's port can use it: run it on networks that you "
      "trust.\n"
      "Exit code: 0 all right, 1 wrong data, 2 bad arguments, 3 failure, 4 slower than the baseline."};
  add_end_flags(app, arguments);
  add_matrix_flags(app, arguments);
  add_row_flags(app, arguments);
  add_bound_flags(app, arguments);
  add_output_flags(app, arguments);
  try {
    app.parse(argc, argv);
    check_arguments(arguments);
  } catch (const CLI::CallForHelp&) {
    return Stop{0, app.help()};
  } catch (const CLI::Error& error) {
    return Stop{2, std::string("verbs_perf: ") + error.what() + "\nRun with --help for the list of options.\n"};
  }
  return arguments;
}

}  // namespace twohop::verbs_perf
