// The command line of allreduce_perf, on CLI11. nccl-tests' flags that make no sense on host memory are accepted with
// the value that means "off", so that scripts written for it still run; any other value is refused by name.
#include "perf_options.hpp"

#include <CLI/CLI.hpp>
#include <cmath>
#include <sstream>

#include "element.hpp"

namespace twohop::perf {
namespace {

const std::vector<std::string> kSchemes{"flat",          "flat-naive",  "flat-tree", "two-hop",
                                        "two-hop-tree",  "two-hop-log", "node-ring", "node-ring-tree",
                                        "node-ring-log", "one-shot",    "auto"};

/// Text to list: "all" becomes everything, otherwise a comma-separated choice from `known`.
std::vector<std::string> choose(const std::string& flag, const std::string& text,
                                const std::vector<std::string>& known) {
  if (text == "all") return known;
  std::vector<std::string> chosen;
  std::istringstream in(text);
  for (std::string item; std::getline(in, item, ',');) {
    if (std::find(known.begin(), known.end(), item) == known.end())
      throw CLI::ValidationError(flag, item + " is not one of: " + CLI::detail::join(known, " ") + " all");
    if (std::find(chosen.begin(), chosen.end(), item) == chosen.end()) chosen.push_back(item);
  }
  if (chosen.empty()) throw CLI::ValidationError(flag, "is empty");
  return chosen;
}

void add_size(CLI::App& app, const std::string& name, size_t& value, const std::string& help) {
  app.add_option_function<std::string>(
         name,
         [&value, name](const std::string& text) {
           auto size = parse_size(text);
           if (!size) throw CLI::ValidationError(name, text + " is not a size such as 8, 64K, 16M or 1G");
           value = *size;
         },
         help)
      ->type_name("SIZE");
}

void add_choice(CLI::App& app, const std::string& name, std::vector<std::string>& value,
                const std::vector<std::string>& known, const std::string& help) {
  app.add_option_function<std::string>(
         name, [&value, known, name](const std::string& text) { value = choose(name, text, known); }, help)
      ->type_name("LIST");
}

/// A flag of nccl-tests for GPUs: only the values in `allowed` can be meant here.
void add_ignored(CLI::App& app, const std::string& name, std::vector<int> allowed, const std::string& why) {
  app.add_option_function<int>(
         name,
         [name, allowed, why](int value) {
           if (std::find(allowed.begin(), allowed.end(), value) == allowed.end())
             throw CLI::ValidationError(
                 name, std::to_string(value) + " cannot be done: " + why + "; accepted: " + CLI::detail::join(allowed));
         },
         "accepted for nccl-tests' sake: " + why)
      ->group("Accepted and without effect");
}

void add_nccl_tests_flags(CLI::App& app, PerfOptions& o) {
  add_size(app, "-b,--minbytes", o.min_bytes, "smallest size (32M)");
  add_size(app, "-e,--maxbytes", o.max_bytes, "largest size (32M)");
  add_size(app, "-i,--stepbytes", o.step_bytes, "increment between sizes (1M)");
  app.add_option("-f,--stepfactor", o.step_factor, "factor between sizes; 1: use the increment")
      ->check(CLI::Range(1, 1 << 20));
  app.add_option("-n,--iters", o.iters, "timed iterations (20)")->check(CLI::Range(1, 10000000));
  app.add_option("-w,--warmup_iters", o.warmup, "untimed iterations before (1)")->check(CLI::Range(0, 10000000));
  app.add_option("-c,--check", o.checks, "checked iterations per row; 0: results are not checked (1)")
      ->check(CLI::Range(0, 1000000));
  app.add_option("-N,--run_cycles", o.cycles, "times the whole list is run; 0: until stopped (1)")
      ->check(CLI::Range(0, 1000000));
  app.add_option_function<int>(
         "-a,--average", [&o](int v) { o.average = static_cast<Average>(v); },
         "time printed: 0 rank 0's, 1 average, 2 min, 3 max over the ranks (1)")
      ->check(CLI::Range(0, 3));
  app.add_option("-I,--per_iter", o.per_iteration, "1: adds i_min i_max i_p99 i_cv% over the iterations");
  app.add_option_function<int>(
         "-R,--local_register", [&o](int v) { o.registered = v != 0; },
         "1: the buffers are registered with the communicators (twohopCommRegister), so that calls need not stage them "
         "(0)")
      ->check(CLI::Range(0, 1));
  app.add_option("-T,--timeout", o.timeout_s, "seconds without progress before a call fails (TWOHOP_TIMEOUT_S)")
      ->check(CLI::Range(1.0, 7.0 * 86400));
  add_choice(app, "-o,--op", o.ops, op_names(), "sum,prod,max,min,avg,mulsum or all");
  add_choice(app, "-d,--datatype", o.types, type_names(), "element types, or all");
  app.add_option("-J,--output_file,--json", o.json_file, "writes configuration and results to this file");
}

void add_own_flags(CLI::App& app, PerfOptions& o) {
  add_choice(app, "--scheme", o.schemes, kSchemes,
             "auto (what TWOHOP_ALGO allows), an algorithm of its list, or all; several are compared (auto)");
  app.add_option("--ranks-per-node", o.ranks_per_node, "cut each host into virtual nodes of this many ranks")
      ->check(CLI::Range(0, 1024));
  app.add_flag(
      "--verbs", o.verbs,
      "adds puts bells WRs signals rail_bytes retries: what the network did in the row's timed iterations, all "
      "ranks together");
  app.add_flag("--device", o.device,
               "buffers in the memory of GPU (rank modulo number of GPUs), calls on a stream, timed by its events");
  app.add_option("--baseline", o.baseline,
                 "nccl: measures NCCL's all-reduce too, as a scheme of that name; ranks on one node, with --device")
      ->check(CLI::IsMember({"nccl"}));
  app.add_option("--tune", o.tune_file,
                 "measures all schemes unless --scheme names some, and writes the fastest of each size into this file, "
                 "for TWOHOP_TUNER_FILE")
      ->check([](const std::string& path) { return path.empty() ? "the file's name is empty" : ""; });
  app.add_option("--buckets", o.buckets_file, "times the byte sizes in this file, in order, as one training step")
      ->check(CLI::ExistingFile);
}

void add_gpu_flags(CLI::App& app) {
  add_ignored(app, "-g,--ngpus", {0, 1}, "a process is one rank");
  add_ignored(app, "-t,--nthreads", {1}, "a process is one rank");
  add_ignored(app, "-m,--agg_iters", {1}, "host calls return when they are done");
  add_ignored(app, "-p,--parallel_init", {0, 1}, "a process has one rank to initialise");
  add_ignored(app, "-r,--root", {0}, "an all-reduce has no root");
  add_ignored(app, "-z,--blocking", {0, 1}, "host calls always block");
  add_ignored(app, "-y,--stream_null", {0, 1}, "no GPU stream is used");
  add_ignored(app, "-G,--cudagraph", {0}, "no GPU is used");
  add_ignored(app, "-C,--report_cputime", {0}, "host calls have one time");
  add_ignored(app, "-S,--report_timestamps", {0}, "rows carry no time of day");
  add_ignored(app, "-M,--memory_report", {0}, "there is no GPU memory to report");
}

void check_combinations(const PerfOptions& o) {
  if (o.min_bytes > o.max_bytes)
    throw CLI::ValidationError("-b " + std::to_string(o.min_bytes), "is above -e " + std::to_string(o.max_bytes));
  if (!o.baseline.empty() && !o.device) throw CLI::ValidationError("--baseline " + o.baseline, "needs --device");
  if (!o.baseline.empty() && std::find(o.ops.begin(), o.ops.end(), "mulsum") != o.ops.end())
    throw CLI::ValidationError("--baseline " + o.baseline, "has no -o mulsum");
  if (!o.baseline.empty() && o.registered)
    throw CLI::ValidationError("-R 1", "--baseline " + o.baseline + " is measured without registered buffers only");
  if (o.step_factor <= 1 && o.step_bytes == 0 && o.min_bytes != o.max_bytes)
    throw CLI::ValidationError("-i 0", "never reaches -e: give -i above 0, or -f above 1");
}

}  // namespace

std::optional<size_t> parse_size(const std::string& text) {
  size_t used = 0;
  double value = 0;
  try {
    value = std::stod(text, &used);
  } catch (const std::exception&) {
    return std::nullopt;
  }
  std::string unit = text.substr(used);
  if (unit.size() == 2 && (unit[1] == 'B' || unit[1] == 'b')) unit.pop_back();
  static const std::string kUnits = "KMGT";
  size_t power = unit.empty() ? 0 : kUnits.find(static_cast<char>(std::toupper(unit[0]))) + 1;
  if (unit.size() > 1 || (!unit.empty() && power == 0)) return std::nullopt;
  value *= std::pow(1024.0, static_cast<double>(power));
  if (!(value >= 0 && value < 1e15)) return std::nullopt;
  return static_cast<size_t>(value);
}

std::vector<size_t> sweep(const PerfOptions& o) {
  std::vector<size_t> sizes;
  auto next = [&](size_t size) {
    if (o.step_factor > 1) return size == 0 ? 1 : size * o.step_factor;
    return o.step_bytes ? size + o.step_bytes : o.max_bytes + 1;
  };
  for (size_t size = o.min_bytes; size <= o.max_bytes; size = next(size)) sizes.push_back(size);
  return sizes;
}

std::variant<std::vector<size_t>, std::string> parse_buckets(const std::string& text) {
  std::vector<size_t> sizes;
  std::istringstream in(text);
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    line = CLI::detail::trim_copy(line.substr(0, line.find('#')));
    if (line.empty()) continue;
    auto size = parse_size(line);
    if (!size) return "line " + std::to_string(number) + ": '" + line + "' is not a number of bytes";
    sizes.push_back(*size);
  }
  if (sizes.empty()) return std::string("no bucket sizes in it: one number of bytes per line is expected");
  return sizes;
}

std::variant<PerfOptions, ParseStop> parse_options(int argc, const char* const* argv) {
  PerfOptions options;
  CLI::App app{"Times twohopAllReduce and checks every element of its results."};
  add_nccl_tests_flags(app, options);
  add_own_flags(app, options);
  add_gpu_flags(app);
  try {
    app.parse(argc, argv);
    if (!options.tune_file.empty() && options.schemes == PerfOptions().schemes) options.schemes = kSchemes;
    check_combinations(options);
  } catch (const CLI::CallForHelp&) {
    return ParseStop{0, app.help()};
  } catch (const CLI::Error& error) {
    return ParseStop{2,
                     std::string("allreduce_perf: ") + error.what() + "\nRun with --help for the list of options.\n"};
  }
  return options;
}

}  // namespace twohop::perf
