// See trace_svg.hpp. One row for each kind of work of a rank and one for each channel's puts: a gap between the puts of a
// row is a wire that idles.
#include "trace_svg.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "plan_setup.hpp"
#include "svg_text.hpp"

namespace twohop::cli {
namespace {

constexpr double kLeft = 150, kWidth = 1000, kRow = 16, kGap = 8, kTop = 66, kRight = 30, kFewPixels = 0.3;
constexpr size_t kMostRanks = 8;

struct Row {
  std::string name;
  const char* colour;
  std::vector<Span> spans;
};

class Picture {
 public:
  Picture(const std::vector<TraceFile>& files, uint64_t call) : call_number_(call) {
    for (const TraceFile& f : files)
      if (const TracedCall* c = call_in(f); c && shown_.size() < kMostRanks) shown_.emplace_back(&f, c);
    if (shown_.empty()) return;
    begin_us_ = shown_[0].second->span.begin_us;
    end_us_ = shown_[0].second->span.end_us;
    for (const auto& [file, c] : shown_) {
      begin_us_ = std::min(begin_us_, c->span.begin_us);
      end_us_ = std::max(end_us_, c->span.end_us);
    }
  }

  std::string draw() const {
    std::string body;
    double y = kTop;
    for (const auto& [file, c] : shown_) {
      body += label(10, y + 12, fmt::format("rank {}", file->rank), true);
      for (const Row& row : rows_of(*file, *c)) {
        body += draw(row, y);
        y += kRow;
      }
      y += kGap;
    }
    return fmt::format(
               "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 {0:.0f} "
               "{1:.0f}\" font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" "
               "fill=\"white\"/>\n",
               kLeft + kWidth + kRight, y + 34) +
           head() + body + axis(y) + "</svg>\n";
  }

 private:
  const TracedCall* call_in(const TraceFile& file) const {
    for (const TracedCall& c : file.calls)
      if (c.number == call_number_) return &c;
    return nullptr;
  }
  static bool overlaps(const Span& a, const Span& b) { return a.begin_us <= b.end_us && a.end_us >= b.begin_us; }

  static std::vector<Row> rows_of(const TraceFile& file, const TracedCall& call) {
    std::vector<Row> rows = {{"copy", "#2f855a", {}}, {"reduce", "#2b6cb0", {}}};
    for (const TracedWork& w : file.work)
      if (overlaps(w.span, call.span) && w.kind != TracedWork::Kind::kWait)
        rows[w.kind == TracedWork::Kind::kCopy ? 0 : 1].spans.push_back(w.span);
    std::map<int, Row> wires;
    for (const TracedPut& p : file.puts) {
      if (!overlaps(p.span, call.span)) continue;
      Row& row = wires.try_emplace(p.channel, Row{fmt::format("puts, ch. {}", p.channel), "#d9822b", {}}).first->second;
      row.spans.push_back(p.span);
    }
    for (auto& [channel, row] : wires) rows.push_back(std::move(row));
    return rows;
  }

  double x(double us) const {
    const double length = std::max(end_us_ - begin_us_, 1e-3);
    return kLeft + kWidth * std::clamp((us - begin_us_) / length, 0.0, 1.0);
  }
  static std::string label(double x, double y, const std::string& text, bool strong = false) {
    return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\"{}>{}</text>\n", x, y, strong ? " font-weight=\"bold\"" : "",
                       escaped(text));
  }
  std::string draw(const Row& row, double y) const {
    std::string text = fmt::format("<rect x=\"{}\" y=\"{:.1f}\" width=\"{}\" height=\"{}\" fill=\"#f1f3f5\"/>\n", kLeft,
                                   y + 1, kWidth, kRow - 2) +
                       label(62, y + 12, row.name);
    for (const Span& s : row.spans)
      text += fmt::format(
          "<rect x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{}\" fill=\"{}\" fill-opacity=\"0.6\"/>\n",
          x(s.begin_us), y + 1, std::max(kFewPixels, x(s.end_us) - x(s.begin_us)), kRow - 2, row.colour);
    return text;
  }
  std::string head() const {
    if (shown_.empty()) return label(10, 22, "no call");
    return label(10, 22, fmt::format("call {} of {}: {}", call_number_,
                                     format_bytes(static_cast<double>(shown_[0].second->bytes)),
                                     format_time(end_us_ - begin_us_)),
                 true) +
           label(10, 44, "copy and reduce: the ranks' cores; puts: from the moment a chunk is handed to the network "
                         "until its source may be overwritten");
  }
  std::string axis(double y) const {
    std::string text;
    for (int i = 0; i <= 10; ++i) {
      const double us = (end_us_ - begin_us_) * i / 10;
      text += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>\n", x(begin_us_ + us),
                          y + 16, format_time(us));
    }
    return text;
  }

  uint64_t call_number_;
  std::vector<std::pair<const TraceFile*, const TracedCall*>> shown_;
  double begin_us_ = 0, end_us_ = 0;
};

}  // namespace

std::string trace_svg(const std::vector<TraceFile>& files, uint64_t call) {
  return Picture(files, call).draw();
}

}  // namespace twohop::cli
