// Text only: no measuring, no output.
#include "result_table.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace twohop::perf {
namespace {

std::string count(uint64_t n, bool known) {
  return known ? std::to_string(n) : "-";
}

/// Where no rail carries anything, only puts are known; a `-` is not a 0.
std::string verbs_part(const NetworkCounts& n) {
  const bool rails = !n.rail_bytes.empty();
  std::string bytes;
  for (uint64_t b : n.rail_bytes) bytes += fmt::format("{}{}", bytes.empty() ? "" : "/", b);
  return fmt::format("  {:>8}  {:>8}  {:>8}  {:>8}  {:>20}  {:>7}  {:>8}", n.puts, count(n.doorbells, rails),
                     count(n.work_requests, rails), count(n.signalled_completions, rails), rails ? bytes : "-",
                     count(n.retries.value_or(0), rails && n.retries),
                     count(n.reissued_puts.value_or(0), rails && n.reissued_puts));
}

std::string half_row(const Measurement& m, const Row& row, int nranks, ExtraColumns extra) {
  auto bytes = static_cast<double>(row.bytes);
  std::string wrong = m.nwrong ? fmt::format("{:6g}", static_cast<double>(*m.nwrong)) : "   N/A";
  std::string text = fmt::format("  {}  {}  {}  {}", fit_number(m.time_us, 7), fit_number(algbw(bytes, m.time_us), 6),
                                 fit_number(busbw(bytes, m.time_us, nranks), 6), wrong);
  if (extra.per_iteration) {
    const auto& s = m.slowest_rank;
    text += fmt::format("  {}  {}  {}  {}", fit_number(s.min, 7), fit_number(s.max, 7), fit_number(s.p99, 7),
                        fit_number(s.cv_percent, 7));
  }
  return extra.verbs ? text + verbs_part(m.network) : text;
}

struct Column {
  const char *name, *unit;
  int width;
};

std::vector<Column> half_columns(ExtraColumns extra) {
  std::vector<Column> columns{{"time", "(us)", 7}, {"algbw", "(GB/s)", 6}, {"busbw", "(GB/s)", 6}, {"#wrong", "", 6}};
  if (extra.per_iteration)
    columns.insert(columns.end(),
                   {{"i_min", "(us)", 7}, {"i_max", "(us)", 7}, {"i_p99", "(us)", 7}, {"i_cv%", "(%)", 7}});
  if (extra.verbs)
    columns.insert(columns.end(), {{"puts", "", 8},
                                   {"bells", "", 8},
                                   {"WRs", "", 8},
                                   {"signals", "", 8},
                                   {"rail_bytes", "(B/B/..)", 20},
                                   {"retries", "", 7},
                                   {"reissued", "", 8}});
  return columns;
}

std::string header_line(const std::vector<std::string>& left, const std::vector<Column>& right,
                        const char* Column::*text) {
  std::string half;
  for (const Column& c : right) half += fmt::format("  {:>{}}", c.*text, c.width);
  return fmt::format("# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}{}{} \n", left[0], left[1], left[2], left[3], left[4], half,
                     half);
}

/// The line above the columns that says which half is which.
std::string places_line(const std::vector<Column>& columns, ExtraColumns extra) {
  std::string blank = fmt::format("# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}", "", "", "", "", "");
  if (!extra.per_iteration && !extra.verbs)
    return blank + fmt::format("{:11}out-of-place{:23}in-place{:10}\n", "", "", "");
  size_t width = 0;
  for (const Column& c : columns) width += 2 + static_cast<size_t>(c.width);
  const std::string more =
      fmt::format(" (+{}{})", extra.per_iteration ? " per-iteration" : "", extra.verbs ? " verbs" : "");
  return blank + fmt::format("{:^{}}{:^{}}\n", "out-of-place" + more, width, "in-place" + more, width);
}

/// By their place: sizes that round to the same bytes make rows that look alike.
std::vector<const Row*> rows_of(const std::vector<Row>& rows, const std::string& scheme) {
  std::vector<const Row*> found;
  for (const Row& row : rows)
    if (row.scheme == scheme) found.push_back(&row);
  return found;
}

std::string compared_line(const Row& row, const Row& base, int nnodes) {
  double time = row.out_of_place.time_us, base_time = base.out_of_place.time_us;
  double sent = row.out_of_place.internode_bytes, bound = internode_bound(static_cast<double>(row.bytes), nnodes);
  std::string share = bound > 0 ? fmt::format("{:.3f}", sent / bound) : "-";
  std::string size = row.whole_step ? fmt::format("step {}", row.bytes) : std::to_string(row.bytes);
  return fmt::format("# {:>14}  {:>8}  {:>6}  {:<10}  {:>9}  {:>6}  {:>15.0f}  {:>8}\n", size, row.type, row.op,
                     row.scheme, fit_number(time, 9), base_time > 0 ? fmt::format("{:.2f}", time / base_time) : "-",
                     sent, share);
}

}  // namespace

double algbw(double bytes, double time_us) {
  return time_us > 0 ? bytes / time_us * 1e-3 : 0;
}

double busbw(double bytes, double time_us, int nranks) {
  return algbw(bytes, time_us) * 2.0 * (nranks - 1) / nranks;
}

double internode_bound(double bytes, int nnodes) {
  return bytes * 2.0 * (nnodes - 1) / nnodes;
}

std::string fit_number(double value, int width) {
  int digits = 0;
  for (double power = 1; value >= power && digits < 30; power *= 10) ++digits;
  if (digits < width - 2) return fmt::format("{:{}.2f}", value, width);
  if (digits < width - 1) return fmt::format("{:{}.1f}", value, width);
  if (digits < width + 1) return fmt::format("{:{}.0f}", value, width);
  return fmt::format("{:{}.{}e}", value, width, width >= 7 ? 1 : 0);
}

std::string table_header(ExtraColumns extra) {
  const std::vector<Column> columns = half_columns(extra);
  std::string text = "#\n";
  if (extra.verbs)
    text +=
        "# verbs: totals of a row's timed iterations over all ranks, warmup and checks left out. puts; doorbells "
        "(bells); "
        "work\n# requests (WRs); those that asked for a completion (signals); payload sent on rail 0/1/..; retries of "
        "the "
        "rails'\n# ports, each port once (its counters include other traffic); parts of puts that were issued again on "
        "another\n# rail, or on one that came back (reissued). -: not counted, as without RDMA rails (TCP, one "
        "node).\n#\n";
  return text + places_line(columns, extra) +
         header_line({"size", "count", "type", "redop", "root"}, columns, &Column::name) +
         header_line({"(B)", "(elements)", "", "", ""}, columns, &Column::unit);
}

std::string table_row(const Row& row, int nranks, ExtraColumns extra) {
  // A whole step is not a call of its own: a comment, so that programs that read the rows do not count it twice.
  std::string size = row.whole_step ? fmt::format("# step {:>5}", row.bytes) : fmt::format("{:>12}", row.bytes);
  return fmt::format("{}  {:>12}  {:>8}  {:>6}  {:>6}{}{}\n", size, row.count, row.type, row.op, -1,
                     half_row(row.out_of_place, row, nranks, extra), half_row(row.in_place, row, nranks, extra));
}

std::string table_footer(uint64_t nwrong, double average_busbw) {
  return fmt::format("# {:<20} : {} {}\n# {:<20} : {:g} \n#\n", "Out of bounds values", nwrong,
                     nwrong ? "FAILED" : "OK", "Avg bus bandwidth", average_busbw);
}

std::string comparison(const std::vector<Row>& rows, const std::vector<std::string>& schemes, ClusterShape shape) {
  std::string text = fmt::format(
      "# Schemes compared, out of place, {} ranks on {} nodes. ratio: time / time of {}. bytes out: of the busiest\n"
      "# node, per call, counted by the transport. x bound: the same / [2(N-1)/N x size], the least possible.\n"
      "# {:>14}  {:>8}  {:>6}  {:<10}  {:>9}  {:>6}  {:>15}  {:>8}\n",
      shape.nranks, shape.nnodes, schemes.front(), "size (B)", "type", "redop", "scheme", "time (us)", "ratio",
      "bytes out", "x bound");
  std::vector<std::vector<const Row*>> by_scheme;
  for (const auto& scheme : schemes) by_scheme.push_back(rows_of(rows, scheme));
  for (size_t i = 0; i < by_scheme.front().size(); ++i)
    for (const auto& of_scheme : by_scheme)
      if (i < of_scheme.size()) text += compared_line(*of_scheme[i], *by_scheme.front()[i], shape.nnodes);
  return text + "#\n";
}

}  // namespace twohop::perf
