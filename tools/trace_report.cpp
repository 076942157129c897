// See trace_report.hpp.
#include "trace_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "plan_setup.hpp"

namespace twohop::cli {
namespace {

struct PutsOfCall {
  std::vector<Span> spans;
  uint64_t bytes = 0;
};
/// By number of the call, for one row.
using Puts = std::map<uint64_t, PutsOfCall>;

void add(Puts& to, uint64_t call, const TracedPut& put) {
  PutsOfCall& puts = to[call];
  puts.spans.push_back(put.span);
  puts.bytes += put.bytes;
}

/// How long at least one of the spans lasts.
double covered(std::vector<Span> spans) {
  std::sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) { return a.begin_us < b.begin_us; });
  double busy = 0, end = spans.front().begin_us;
  for (const Span& s : spans) {
    busy += std::max(0.0, s.end_us - std::max(end, s.begin_us));
    end = std::max(end, s.end_us);
  }
  return busy;
}

WireShare share_of(const Puts& puts) {
  WireShare share;
  for (const auto& [call, p] : puts) {
    double first = p.spans[0].begin_us, last = p.spans[0].end_us;
    for (const Span& s : p.spans) first = std::min(first, s.begin_us), last = std::max(last, s.end_us);
    share.span_us += last - first;
    share.busy_us += covered(p.spans);
    share.puts += p.spans.size();
    share.bytes += p.bytes;
  }
  return share;
}

/// The call in which the put began: its index; calls.size(): none. Calls of a rank follow each other.
size_t call_of(const std::vector<TracedCall>& calls, const TracedPut& put) {
  const auto after =
      std::upper_bound(calls.begin(), calls.end(), put.span.begin_us,
                       [](double at, const TracedCall& c) { return at < c.span.begin_us; });
  if (after == calls.begin() || put.span.begin_us > std::prev(after)->span.end_us) return calls.size();
  return static_cast<size_t>(std::prev(after) - calls.begin());
}

struct RankPuts {
  Puts all;
  std::map<int, Puts> by_channel, by_rail;
};

RankPuts puts_of(const TraceFile& file, uint64_t bytes) {
  std::vector<TracedCall> calls = file.calls;
  std::sort(calls.begin(), calls.end(),
            [](const TracedCall& a, const TracedCall& b) { return a.span.begin_us < b.span.begin_us; });
  RankPuts rank;
  for (const TracedPut& put : file.puts) {
    const size_t at = call_of(calls, put);
    if (at == calls.size() || (bytes > 0 && calls[at].bytes != bytes)) continue;
    add(rank.all, calls[at].number, put);
    add(rank.by_channel[put.channel], calls[at].number, put);
    for (const int rail : put.rails) add(rank.by_rail[rail], calls[at].number, put);
  }
  return rank;
}

}  // namespace

std::vector<WireRow> wire_rows(const std::vector<TraceFile>& files, uint64_t bytes) {
  std::vector<WireRow> rows;
  Puts everybody;
  for (const TraceFile& file : files) {
    const RankPuts rank = puts_of(file, bytes);
    rows.push_back({fmt::format("rank {}", file.rank), share_of(rank.all)});
    for (const auto& [channel, puts] : rank.by_channel)
      rows.push_back({fmt::format("rank {}, channel {}", file.rank, channel), share_of(puts)});
    for (const auto& [rail, puts] : rank.by_rail)
      rows.push_back({fmt::format("rank {}, rail {}", file.rank, rail), share_of(puts)});
    for (const auto& [call, puts] : rank.all) {
      PutsOfCall& all = everybody[call];
      all.spans.insert(all.spans.end(), puts.spans.begin(), puts.spans.end());
      all.bytes += puts.bytes;
    }
  }
  if (files.size() > 1) rows.push_back({"these ranks together", share_of(everybody)});
  return rows;
}

std::string trace_text(const std::vector<WireRow>& rows) {
  std::string text = fmt::format("{:<28} {:>8} {:>10} {:>12} {:>12} {:>7}\n", "", "puts", "bytes", "first-last",
                                 "with a put", "idle");
  for (const WireRow& row : rows)
    text += fmt::format("{:<28} {:>8} {:>10} {:>12} {:>12} {:>6.1f}%\n", row.what, row.share.puts,
                        format_bytes(static_cast<double>(row.share.bytes)), format_time(row.share.span_us),
                        format_time(row.share.busy_us), 100 * row.share.idle_share());
  return text;
}

std::string trace_json(const std::vector<WireRow>& rows) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const WireRow& row : rows)
    list.push_back({{"what", row.what},
                    {"puts", row.share.puts},
                    {"bytes", row.share.bytes},
                    {"span_us", row.share.span_us},
                    {"busy_us", row.share.busy_us},
                    {"idle_share", row.share.idle_share()}});
  return list.dump(1) + "\n";
}

uint64_t call_to_show(const TraceFile& file, uint64_t bytes) {
  const TracedCall* best = nullptr;
  for (const TracedCall& c : file.calls)
    if ((bytes == 0 || c.bytes == bytes) && (!best || c.bytes >= best->bytes)) best = &c;
  return best ? best->number : 0;
}

}  // namespace twohop::cli
