// Text only: no measuring, no output.
#include "result_table.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace twohop::perf {
namespace {

std::string half_row(const Measurement& m, const Row& row, int nranks, bool per_iteration) {
  auto bytes = static_cast<double>(row.bytes);
  std::string wrong = m.nwrong ? fmt::format("{:6g}", static_cast<double>(*m.nwrong)) : "   N/A";
  std::string text = fmt::format("  {}  {}  {}  {}", fit_number(m.time_us, 7), fit_number(algbw(bytes, m.time_us), 6),
                                 fit_number(busbw(bytes, m.time_us, nranks), 6), wrong);
  if (per_iteration) {
    const auto& s = m.slowest_rank;
    text += fmt::format("  {}  {}  {}  {}", fit_number(s.min, 7), fit_number(s.max, 7), fit_number(s.p99, 7),
                        fit_number(s.cv_percent, 7));
  }
  return text;
}

std::string header_line(const std::vector<std::string>& left, const std::vector<std::string>& right) {
  std::string half;
  for (size_t i = 0; i < right.size(); ++i) half += fmt::format("  {:>{}}", right[i], i == 0 || i > 3 ? 7 : 6);
  return fmt::format("# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}{}{} \n", left[0], left[1], left[2], left[3], left[4], half,
                     half);
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

std::string table_header(bool per_iteration) {
  std::vector<std::string> names{"time", "algbw", "busbw", "#wrong"}, units{"(us)", "(GB/s)", "(GB/s)", ""};
  if (per_iteration) {
    names.insert(names.end(), {"i_min", "i_max", "i_p99", "i_cv%"});
    units.insert(units.end(), {"(us)", "(us)", "(us)", "(%)"});
  }
  std::string blank = fmt::format("# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}", "", "", "", "", "");
  std::string places = per_iteration
                           ? fmt::format("{:14}out-of-place (+ per-iteration){:32}in-place (+ per-iteration)", "", "")
                           : fmt::format("{:11}out-of-place{:23}in-place{:10}", "", "", "");
  return "#\n" + blank + places + "\n" + header_line({"size", "count", "type", "redop", "root"}, names) +
         header_line({"(B)", "(elements)", "", "", ""}, units);
}

std::string table_row(const Row& row, int nranks, bool per_iteration) {
  // A whole step is not a call of its own: a comment, so that programs that read the rows do not count it twice.
  std::string size = row.whole_step ? fmt::format("# step {:>5}", row.bytes) : fmt::format("{:>12}", row.bytes);
  return fmt::format("{}  {:>12}  {:>8}  {:>6}  {:>6}{}{}\n", size, row.count, row.type, row.op, -1,
                     half_row(row.out_of_place, row, nranks, per_iteration),
                     half_row(row.in_place, row, nranks, per_iteration));
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
