// allreduce_perf: times all-reduces of many sizes under one or several schemes and checks every element.
// Exit code: 0 all right, 1 wrong results, 2 bad arguments, 3 a call failed.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <new>
#include <sstream>

#include "bench.hpp"
#include "json_report.hpp"
#include "preflight.hpp"
#include "result_table.hpp"
#include "tune_table.hpp"

namespace twohop::perf {
namespace {

std::variant<std::vector<size_t>, std::string> read_buckets(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  if (!file) return "--buckets " + path + ": cannot be read";
  auto parsed = parse_buckets(text.str());
  if (auto* error = std::get_if<std::string>(&parsed)) return "--buckets " + path + ": " + *error;
  return parsed;
}

std::vector<Workload> workloads(const PerfOptions& options, const std::vector<size_t>& buckets) {
  if (!buckets.empty()) return {{buckets, true}};
  std::vector<Workload> list;
  for (size_t bytes : sweep(options)) list.push_back({{bytes}, false});
  return list;
}

/// Everything that is printed; only on rank 0.
class Printer {
 public:
  Printer(const PerfOptions& options, const Session& session, const Place& place)
      : options_(options), session_(session), place_(place) {}

  void preamble() {
    bool factor = options_.step_factor > 1;
    std::string ranks = session_.describe_ranks();  // all ranks take part
    if (place_.on_gpu()) ranks += fmt::format("# Buffers of rank 0 in {}, timed by CUDA events\n", place_.name());
    if (options_.registered) ranks += "# Buffers registered with every communicator\n";
    print(
        fmt::format("# twohop allreduce_perf version {}.{}.{}\n"
                    "# nThread 1 nGpus 0 minBytes {} maxBytes {} step: {}({}) warmup iters: {} iters: {} agg iters: "
                    "1 validation: {} graph: 0\n#\n# Using ranks (started by {})\n{}",
                    TWOHOP_MAJOR, TWOHOP_MINOR, TWOHOP_PATCH, options_.min_bytes, options_.max_bytes,
                    factor ? options_.step_factor : options_.step_bytes, factor ? "factor" : "bytes", options_.warmup,
                    options_.iters, options_.checks, session_.launcher().name(), ranks));
  }
  /// With one scheme rows appear as they are measured; several would mix, so their blocks follow at the end.
  void begin_cycle() {
    if (live()) print("# scheme " + schemes()[0] + "\n" + table_header(extra()));
  }
  void add(const std::vector<Row>& rows) {
    if (!live()) return;
    for (const Row& row : rows) print(line(row));
  }
  void end_cycle(const std::vector<Row>& rows) {
    for (const auto& scheme : schemes()) {
      if (!live()) {
        print("# scheme " + scheme + "\n" + table_header(extra()));
        for (const Row& row : rows)
          if (row.scheme == scheme) print(line(row));
      }
      footer(rows, scheme);
    }
    if (!live()) print(comparison(rows, schemes(), session_.shape()));
  }

 private:
  bool live() const { return session_.schemes().size() == 1; }
  std::vector<std::string> schemes() const {
    std::vector<std::string> names;
    for (const auto& scheme : session_.schemes()) names.push_back(scheme.name);
    return names;
  }
  ExtraColumns extra() const { return {options_.per_iteration, options_.verbs}; }
  std::string line(const Row& row) const { return table_row(row, session_.nranks(), extra()); }

  void footer(const std::vector<Row>& rows, const std::string& scheme) {
    uint64_t wrong = 0;
    double bandwidth = 0, measured = 0;
    for (const Row& row : rows) {
      if (row.scheme != scheme || row.whole_step) continue;
      for (const auto* m : {&row.out_of_place, &row.in_place}) {
        wrong += m->nwrong.value_or(0);
        bandwidth += busbw(static_cast<double>(row.bytes), m->time_us, session_.nranks());
        ++measured;
      }
    }
    print(table_footer(wrong, measured > 0 ? bandwidth / measured : 0));
  }

  void print(const std::string& text) const {
    if (session_.rank() != 0) return;
    if (isatty(STDERR_FILENO)) std::fputs("\r\033[K", stderr);  // the progress line
    std::fputs(text.c_str(), stdout);
    std::fflush(stdout);
  }

  const PerfOptions& options_;
  const Session& session_;
  const Place& place_;
};

bool write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  file.close();
  if (file) return true;
  fmt::print(stderr, "allreduce_perf: {}: cannot be written\n", path);
  return false;
}

int run(const PerfOptions& options, const Session& session, Place& place, const std::vector<size_t>& buckets) {
  auto list = workloads(options, buckets);
  size_t largest = 0;
  for (const auto& w : list) largest = std::max(largest, *std::max_element(w.bytes.begin(), w.bytes.end()));
  if (!all_ranks_ready(options, session, largest)) return 2;
  Bench bench(session, place, options, largest);
  Printer printer(options, session, place);
  printer.preamble();
  std::vector<Row> all;
  int exit_code = 0;
  for (int cycle = 0; options.cycles == 0 || cycle < options.cycles; ++cycle) {
    std::vector<Row> rows;
    printer.begin_cycle();
    for (const auto& type : options.types)
      for (const auto& op : options.ops)
        for (const auto& workload : list) {
          auto measured = bench.measure(type, op, workload);
          printer.add(measured);
          rows.insert(rows.end(), measured.begin(), measured.end());
        }
    printer.end_cycle(rows);
    for (const Row& row : rows)
      if (row.out_of_place.nwrong.value_or(0) + row.in_place.nwrong.value_or(0) > 0) exit_code = 1;
    if (options.cycles == 0) all.clear();  // runs for ever: the file holds the last cycle
    all.insert(all.end(), rows.begin(), rows.end());
    if (session.rank() == 0 && !options.json_file.empty() &&
        !write_file(options.json_file, json_report(options, session.shape(), session.launcher().name(), all)))
      exit_code = 3;
    if (session.rank() == 0 && !options.tune_file.empty() && !write_file(options.tune_file, tune_table(all)))
      exit_code = 3;
  }
  return exit_code;
}

int main_with_ranks(const PerfOptions& options, int* argc, char*** argv) {
  auto say = [](const std::string& text) { fmt::print(stderr, "allreduce_perf: {}\n", text); };
  std::vector<size_t> buckets;
  if (!options.buckets_file.empty()) {
    auto read = read_buckets(options.buckets_file);
    if (auto* error = std::get_if<std::string>(&read)) return say(*error), 2;
    buckets = std::get<std::vector<size_t>>(read);
  }
  auto started = Launcher::start(argc, argv);
  if (auto* error = std::get_if<std::string>(&started)) return say(*error), 2;
  const auto& launcher = std::get<Launcher>(started);
  int exit_code = 0;
  std::unique_ptr<Place> place = host_place();
  if (options.device) {  // before the communicators, which take the GPU that is current then
    auto gpu = gpu_place(launcher.rank());
    if (auto* why = std::get_if<std::string>(&gpu)) return say("--device: " + *why), 2;
    place = std::move(std::get<std::unique_ptr<Place>>(gpu));
  }
  {
    Session session(launcher, options);
    try {
      exit_code = run(options, session, *place, buckets);
    } catch (const std::bad_alloc&) {  // the other ranks cannot wait for this one
      say(fmt::format("rank {} of {}: out of memory: give a smaller -e/--maxbytes, fewer sizes, or a smaller -n",
                      session.rank(), session.nranks()));
      launcher.leave(3);
    }
  }
  launcher.finish();
  return exit_code;
}

}  // namespace
}  // namespace twohop::perf

int main(int argc, char** argv) {
  using namespace twohop::perf;
  auto parsed = parse_options(argc, argv);
  if (auto* stop = std::get_if<ParseStop>(&parsed)) {
    if (Launcher::may_be_rank0()) std::fputs(stop->text.c_str(), stop->exit_code ? stderr : stdout);
    return stop->exit_code;
  }
  return main_with_ranks(std::get<PerfOptions>(parsed), &argc, &argv);
}
