// The client's side of ends.hpp.
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fstream>

#include "base/bounded_json.hpp"
#include "baseline.hpp"
#include "ends.hpp"
#include "flow.hpp"
#include "hello.hpp"
#include "summary.hpp"

namespace twohop::verbs_perf {
namespace {

using nlohmann::json;
constexpr size_t kLeastRepeatsForStable = 3;
constexpr double kLeastRowSeconds = 0.01;

/// What of the bounds is left.
class Budget {
 public:
  explicit Budget(const Arguments& a) : a_(a), start_ns_(verbs::now_ns()) {}

  /// Why no further row may begin; empty: `row` has its bounds now.
  std::string limit(RowSpec& row) const {
    const double left_s = a_.max_seconds - static_cast<double>(verbs::now_ns() - start_ns_) * 1e-9;
    if (left_s < kLeastRowSeconds) return fmt::format("--max-time {:g}", a_.max_seconds);
    row.max_seconds = std::min(row.max_seconds, left_s);
    row.max_bytes = (a_.max_bytes - std::min(a_.max_bytes, used_)) / (row.bidirectional ? 2 : 1);
    const auto rails = static_cast<uint64_t>(std::count(row.rail.begin(), row.rail.end(), '+')) + 1;
    if (row.max_bytes / row.size < rails * static_cast<uint64_t>(row.qps))
      return fmt::format("--max-bytes {}", a_.max_bytes);
    return "";
  }
  void use(uint64_t bytes) { used_ += bytes; }

 private:
  const Arguments& a_;
  uint64_t start_ns_, used_ = 0;
};

Result<RowResult> run_row(const RowSpec& row, const Ports& ports, ControlLink& link) {
  auto mine = ports.for_client(row);
  if (!mine) return mine.error();
  json list = json::array();
  for (const RowPort& port : *mine) list.push_back(to_json(port));
  const Deadline deadline = after(row.patience_s);
  auto reply = link.exchange({{"row", to_json(row)}, {"ports", list}, {"places", ports.places(row.rail)}}, deadline);
  if (!reply) return reply.error();
  auto theirs = remote_ports(reply->value("ports", json()));
  if (!theirs) return theirs.error();
  if (theirs->size() != mine->size())
    return make_error(twohopRemoteError, "{} names {} ports for a row of {}", link.peer(), theirs->size(),
                      mine->size());
  auto end = RowEnd::connect(row, 0, *mine, *theirs, link, deadline);
  if (!end) return end.error();
  auto result = run_flow(**end, link);
  if (!result) return result.error();
  auto other = link.exchange(to_json(*result), after(row.patience_s));
  if (!other) return other.error();
  auto server = end_result_from_json(*other);
  if (!server) return server.error();
  RowResult r;
  r.row = row;
  r.mtu = verbs::mtu_bytes((*end)->qps().front().plan.mtu);
  for (size_t i = 0; i < mine->size(); ++i) {
    r.from += (i ? " + " : "") + ports.describe((*mine)[i]);
    const json words = reply->at("ports")[i].value("words", json((*theirs)[i].name));
    r.to += (i ? " + " : "") + (words.is_string() ? words.get<std::string>() : (*theirs)[i].name);
  }
  r.client = std::move(*result);
  r.server = std::move(*server);
  return r;
}

void print(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
}

Result<> write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  file.close();
  if (file) return {};
  return make_error(twohopSystemError, "{}: cannot be written", path);
}

Result<json> read_json(const std::string& path) {
  std::ifstream file(path);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  json j = parse_bounded_json<json>(text);
  if (!j.is_discarded()) return j;
  return make_error(twohopInvalidArgument,
                    "--compare {}: is not JSON: a file that --save-baseline has written is expected", path);
}

/// Whether all configurations have been repeated often enough and vary little.
bool all_stable(const std::vector<RowResult>& rows, double percent) {
  const std::vector<Group> groups = group_repeats(rows);
  return std::all_of(groups.begin(), groups.end(),
                     [&](const Group& g) { return g.repeats >= kLeastRepeatsForStable && g.spread * 100 <= percent; });
}

struct Run {
  RunInfo info;
  std::vector<RowResult> rows;
};

Result<> measure(const Arguments& a, const Ports& ports, const std::vector<RowSpec>& plan, ControlLink& link,
                 Run& run) {
  Budget budget(a);
  print(table_header());
  std::string pair;
  for (RowSpec row : plan) {
    run.info.stopped = budget.limit(row);
    // Repeats are outermost: a new one begins when the first configuration comes again.
    const bool round_begins = row.repeat > 0 && configuration(row) == configuration(plan.front());
    if (run.info.stopped.empty() && a.stable_percent > 0 && round_begins && all_stable(run.rows, a.stable_percent))
      run.info.stopped = fmt::format("--stable {:g}", a.stable_percent);
    if (!run.info.stopped.empty()) break;
    auto result = run_row(row, ports, link);
    if (!result) return result.error();
    budget.use(result->bytes());
    if (std::exchange(pair, result->from + result->to) != result->from + result->to)
      print(fmt::format("# {} -> {}\n", result->from, result->to));
    print(table_row(*result));
    run.rows.push_back(std::move(*result));
  }
  if (!run.info.stopped.empty())
    print(fmt::format("# stopped by {} after {} of {} rows\n", run.info.stopped, run.rows.size(), plan.size()));
  return link.send({{"bye", true}}, after(5));
}

Result<> write_files(const Arguments& a, const Run& run) {
  json report = json_report(run.info, run.rows);
  report["summary"] = summary_json(run.rows, run.info);
  const std::string text = report.dump(1, ' ', false, json::error_handler_t::replace) + "\n";
  for (const std::string& path : {a.json_file, a.baseline_to})
    if (!path.empty())
      if (auto ok = write_file(path, text); !ok) return ok;
  return a.csv_file.empty() ? Result<>() : write_file(a.csv_file, csv(run.rows));
}

RunInfo run_info(const Ports& ports, const json& mine, const json& theirs, size_t planned) {
  RunInfo info;
  info.library = ports.library();
  info.client_host = mine.at("host").get<std::string>();
  info.server_host = theirs.at("host").get<std::string>();
  info.one_host = mine.at("boot") == theirs.value("boot", json());
  info.emulated = ports.emulated() || theirs.value("emulated", json()) == true;
  info.rows_planned = planned;
  return info;
}

}  // namespace

Result<> check_files(const Arguments& a) {
  for (const std::string& path : {a.json_file, a.csv_file, a.baseline_to}) {
    if (path.empty()) continue;
    std::FILE* file = std::fopen(path.c_str(), "a");  // leaves what is there
    if (!file) return make_error(twohopInvalidArgument, "{}: cannot be written: {}", path, std::strerror(errno));
    std::fclose(file);
  }
  if (a.baseline_from.empty()) return {};
  auto baseline = read_json(a.baseline_from);
  if (!baseline) return baseline.error();
  auto rows = rows_from_json(*baseline);
  if (!rows) return make_error(twohopInvalidArgument, "--compare {}: {}", a.baseline_from, rows.error().message);
  return {};
}

Result<std::vector<RowSpec>> plan_rows(const Arguments& a, const Ports& ports) {
  Matrix matrix = a.matrix;
  matrix.rails = a.devices;
  if (matrix.rails.empty()) matrix.rails = {ports.names().front()};
  for (std::string& rail : matrix.rails) {
    auto name = ports.full_name(rail);
    if (!name) return name.error();
    rail = *name;
  }
  const std::vector<RowSpec> rows = expand(matrix, a.common);
  for (const RowSpec& row : rows) {
    if (row.repeat > 0) break;
    if (auto mine = ports.for_client(row); !mine) return mine.error();
    if (auto ok = ports.check(row); !ok) return ok.error();
    // Also what no message of the matrix is small enough for: -I 5000 is wrong where the device takes 1024.
    for (int bytes : matrix.inlines)
      if (auto ok = ports.check_inline(row.rail, bytes); !ok) return ok.error();
  }
  return rows;
}

Result<int> run_client(const Arguments& a, const Ports& ports, ControlLink& link) {
  auto plan = plan_rows(a, ports);
  if (!plan) return plan.error();
  const json mine = hello_message(ports);
  auto theirs = link.exchange(mine, after(30));
  if (!theirs) return theirs.error();
  if (auto known = check_hello(*theirs); !known) return known.error();
  Run run{run_info(ports, mine, *theirs, plan->size()), {}};
  print(
      fmt::format("# twohop verbs_perf {}.{}.{}: {} rows, client {}, server {}{}, {}\n"
                  "# BW average: bytes of each sending end over its own time; BW global: all bytes from barrier to "
                  "barrier; t_post, t_compl, 99%: the client's, a message in ibv_post_send, a doorbell until its "
                  "completion; #wrong: bytes, both ends\n",
                  TWOHOP_MAJOR, TWOHOP_MINOR, TWOHOP_PATCH, plan->size(), run.info.client_host, run.info.server_host,
                  run.info.one_host ? " (the same host)" : "",
                  run.info.emulated ? "over softnic, the emulated device" : ports.library()));
  auto measured = measure(a, ports, *plan, link, run);
  if (!measured) link.tell(measured.error());
  // What was measured before a failure is worth having.
  if (auto written = write_files(a, run); !written) return written.error();
  if (!measured) return measured.error();
  print(summary_text(run.rows, run.info));
  int exit_code = 0;
  if (!a.baseline_from.empty()) {
    auto baseline = read_json(a.baseline_from);
    if (!baseline) return baseline.error();
    auto verdict = compare_with_baseline(*baseline, run.rows, run.info, a.tolerance_percent);
    if (!verdict) return verdict.error();
    print(verdict->text);
    if (verdict->slower > 0) exit_code = 4;
  }
  if (std::any_of(run.rows.begin(), run.rows.end(), [](const RowResult& r) { return r.wrong_bytes() > 0; }))
    exit_code = 1;
  return exit_code;
}

}  // namespace twohop::verbs_perf
