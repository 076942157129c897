// See report.hpp.
#include "report.hpp"

#include <nlohmann/json.hpp>

namespace twohop::verbs_perf {
namespace {

using nlohmann::json;

std::string retries_text(const RowResult& r) {
  return r.retries() ? std::to_string(*r.retries()) : "-";
}

/// The end whose times say most: the client sends in every row.
const EndResult& sender(const RowResult& r) {
  return r.client;
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (char c : text) out += c == '"' ? "\"\"" : std::string(1, c);
  return out + "\"";
}

std::string counters_text(const EndResult& r) {
  std::string text;
  for (const auto& [port, moved] : r.counters)
    for (const auto& [name, by] : moved) text += fmt::format("{}{}/{}={}", text.empty() ? "" : " ", port, name, by);
  return text;
}

std::string csv_end_header(const std::string& end) {
  std::string text;
  for (const char* name : {"messages",
                           "bytes",
                           "doorbells",
                           "work_requests",
                           "signalled_completions",
                           "setup_ms",
                           "register_ms",
                           "first_us",
                           "post_us",
                           "completion_mean_us",
                           "completion_min_us",
                           "completion_p50_us",
                           "completion_p99_us",
                           "completion_max_us",
                           "local_s",
                           "global_s",
                           "stopped_by",
                           "verified_bytes",
                           "wrong_bytes",
                           "retries",
                           "counters"})
    text += fmt::format(",{}_{}", end, name);
  return text;
}

std::string csv_end(const EndResult& r) {
  const TimeStats& c = r.completion_us;
  return fmt::format(
      ",{},{},{},{},{},{:.6g},{:.6g},{:.6g},{:.6g},{:.6g},{:.6g},{:.6g},{:.6g},{:.6g},{:.9g},{:.9g},{},{},{},"
      "{},{}",
      r.messages, r.bytes, r.doorbells, r.work_requests, r.signalled_completions, r.setup_ms, r.register_ms, r.first_us,
      r.post_us, c.mean, c.min, c.p50, c.p99, c.max, r.local_s, r.global_s, r.stopped_by, r.verified_bytes,
      r.wrong_bytes, r.retries ? std::to_string(*r.retries) : "", quoted(counters_text(r)));
}

}  // namespace

std::string table_header() {
  return fmt::format(
      "#{:>9} {:>9} {:>5} {:<22} {:>4} {:>6} {:>5} {:>5} {:>7} {:>4} {:>11} {:>16} {:>19} {:>18} {:>13} {:>13} {:>14} "
      "{:>10} {:>14} {:>8} {:>7}\n",
      "op", "#bytes", "#qps", "rail", "dir", "batch", "mtu", "gid", "inline", "rep", "#iterations", "BW peak[MiB/sec]",
      "BW average[MiB/sec]", "BW global[MiB/sec]", "MsgRate[Mpps]", "t_post[usec]", "t_compl[usec]", "99%[usec]",
      "t_global[usec]", "retries", "#wrong");
}

std::string table_row(const RowResult& r) {
  const EndResult& e = sender(r);
  const RowSpec& s = r.row;
  return fmt::format(
      "{:>10} {:>9} {:>5} {:<22} {:>4} {:>6} {:>5} {:>5} {:>7} {:>4} {:>11} {:>16.2f} {:>19.2f} {:>18.2f} {:>13.6f} "
      "{:>13.3f} {:>14.2f} {:>10.2f} {:>14.1f} {:>8} {:>7}{}\n",
      op_name(s.op), s.size, s.qps, s.rail, s.bidirectional ? "bi" : "uni", s.batch, r.mtu,
      s.gid < 0 ? "auto" : std::to_string(s.gid), s.inline_bytes, s.repeat, r.messages(), r.peak_mib_per_s(),
      r.average_mib_per_s(), r.global_mib_per_s(), r.mpps(), e.post_us, e.completion_us.mean, e.completion_us.p99,
      e.global_s * 1e6, retries_text(r), r.wrong_bytes(),
      e.stopped_by == "time" || e.stopped_by == "bytes" ? fmt::format("  # cut short by its bound of {}", e.stopped_by)
                                                        : "");
}

std::string csv(const std::vector<RowResult>& rows) {
  std::string text;
  for (const Factor& f : factors()) text += fmt::format("{},", f.name);
  text +=
      "repeat,mtu_bytes,from,to,bw_peak_mib_per_s,bw_average_mib_per_s,bw_global_mib_per_s,msg_rate_mpps,retries,"
      "wrong_bytes" +
      csv_end_header("client") + csv_end_header("server") + "\n";
  for (const RowResult& r : rows) {
    for (const Factor& f : factors()) text += f.value(r.row) + ",";
    text += fmt::format("{},{},{},{},{:.6g},{:.6g},{:.6g},{:.6g},{},{}{}{}\n", r.row.repeat, r.mtu, quoted(r.from),
                        quoted(r.to), r.peak_mib_per_s(), r.average_mib_per_s(), r.global_mib_per_s(), r.mpps(),
                        r.retries() ? std::to_string(*r.retries()) : "", r.wrong_bytes(), csv_end(r.client),
                        csv_end(r.server));
  }
  return text;
}

json json_report(const RunInfo& info, const std::vector<RowResult>& rows) {
  json results = json::array();
  for (const RowResult& r : rows) results.push_back(to_json(r));
  return {{"config",
           {{"program", "verbs_perf"},
            {"version", TWOHOP_VERSION_CODE},
            {"library", info.library},
            {"emulated", info.emulated},
            {"client_host", info.client_host},
            {"server_host", info.server_host},
            {"one_host", info.one_host},
            {"rows_planned", info.rows_planned},
            {"stopped", info.stopped}}},
          {"results", results}};
}

Result<std::vector<RowResult>> rows_from_json(const json& report) {
  std::vector<RowResult> rows;
  const auto results = report.is_object() ? report.find("results") : report.end();
  if (!report.is_object() || results == report.end() || !results->is_array())
    return make_error(twohopInvalidArgument, "it has no results: a file that --save-baseline has written is expected");
  for (const json& j : *results) {
    auto row = row_result_from_json(j);
    if (!row) return row.error();
    rows.push_back(std::move(*row));
  }
  return rows;
}

}  // namespace twohop::verbs_perf
