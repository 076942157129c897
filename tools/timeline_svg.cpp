// See timeline_svg.hpp. One row for each stage of each rank, one for each rail, so that one sees how they overlap: a
// row that is full is what the call waits for. Long calls show their first rounds.
#include "timeline_svg.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "plan_setup.hpp"
#include "svg_text.hpp"

namespace twohop::cli {
namespace {

constexpr double kLeft = 150, kWidth = 1000, kRow = 18, kGap = 10, kTop = 92, kRight = 30, kFewPixels = 0.4;
constexpr size_t kMostRanks = 4;
constexpr double kShownRounds = 4;

struct Stage {
  const char *name, *colour;
};
Stage stage_of(const Interval& i) {
  if (i.rail >= 0) return {"2 wire", "#d9822b"};
  switch (i.work) {
    case Activity::kReduce:
      return {"1 reduce", "#2b6cb0"};
    case Activity::kFold:
      return {"2 fold", "#c05621"};
    case Activity::kSpread:
      return {"3 spread", "#2f855a"};
    default:
      return {"forward", "#805ad5"};
  }
}

class Picture {
 public:
  Picture(const CostProgram& program, const Prediction& p, std::string title)
      : program_(program), p_(p), title_(std::move(title)) {
    const size_t rounds = p.run.round_end_us.size();
    const auto shown = static_cast<size_t>(kShownRounds);
    end_us_ = rounds > shown ? p.run.round_end_us[shown - 1] : p.run.time_us;
  }

  std::string draw() {
    sort_rows();
    const double height = kTop + static_cast<double>(rows_.size()) * kRow + groups() * kGap + 50;
    std::string svg = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 {0:.0f} "
        "{1:.0f}\" "
        "font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
        kLeft + kWidth + kRight, height);
    svg += head();
    double y = kTop;
    std::string group;
    for (const auto& [key, intervals] : rows_) {
      if (key.first != group && !group.empty()) y += kGap;
      if (key.first != group) svg += label(10, y + 13, group = key.first, true);
      svg += row(key.second, intervals, y);
      y += kRow;
    }
    return svg + axis(y + 6) + "</svg>\n";
  }

 private:
  using Key = std::pair<std::string, std::string>;  // group, stage

  void sort_rows() {
    for (const Interval& i : p_.run.timeline) {
      if (i.begin_us > end_us_) continue;
      const CostRank& rank = program_.ranks[static_cast<size_t>(i.rank)];
      if (rank.node != 0) continue;
      if (i.rail >= 0)
        rows_[{fmt::format("rail {:2}", i.rail), "2 wire"}].push_back(&i);
      else if (static_cast<size_t>(rank.local) < kMostRanks)
        rows_[{fmt::format("rank {:2}", rank.local), stage_of(i).name}].push_back(&i);
    }
  }
  double groups() const {
    double n = 0;
    std::string last;
    for (const auto& [key, intervals] : rows_)
      if (key.first != last) ++n, last = key.first;
    return n;
  }
  double x(double us) const { return kLeft + kWidth * std::min(us, end_us_) / end_us_; }

  static std::string label(double x, double y, const std::string& text, bool strong = false) {
    return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\"{}>{}</text>\n", x, y, strong ? " font-weight=\"bold\"" : "",
                       escaped(text));
  }
  std::string head() const {
    std::string text = label(10, 22, title_ + ", " + std::string(collective_name(program_.frame.collective)), true);
    text += label(10, 42,
                  fmt::format("{} nodes, {} ranks; chunks of {}, {} channels; {} in all{}; node {} of all alike",
                              program_.cluster->nnodes(), program_.cluster->nranks(),
                              format_bytes(static_cast<double>(p_.chunk_bytes)), p_.channels, format_time(p_.time_us),
                              end_us_ < p_.run.time_us
                                  ? fmt::format(", the first {:.0f} of {} rounds shown", kShownRounds, p_.rounds)
                                  : "",
                              program_.ranks[0].rank / std::max(1, program_.cluster->max_local_size())));
    double left = 10;
    for (const Stage& s : {Stage{"1 reduce: inputs inside the node", "#2b6cb0"},
                           {"2 wire: bytes on the rail", "#d9822b"},
                           {"2 fold: what other nodes sent", "#c05621"},
                           {"3 spread: to the outputs", "#2f855a"},
                           {"forward: between windows", "#805ad5"}}) {
      text += fmt::format("<rect x=\"{}\" y=\"56\" width=\"12\" height=\"12\" fill=\"{}\"/>\n", left, s.colour);
      text += label(left + 17, 66, s.name);
      left += 30 + text_width(s.name);
    }
    return text;
  }
  std::string row(const std::string& name, const std::vector<const Interval*>& intervals, double y) const {
    double busy = 0;
    std::string bars;
    for (const Interval* i : intervals) {
      busy += std::min(i->end_us, end_us_) - i->begin_us;
      const double from = x(i->begin_us), width = std::max(kFewPixels, x(i->end_us) - from);
      bars += fmt::format(
          "<rect x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{}\" fill=\"{}\"{}><title>round {}, shard {}, "
          "chunk {}, "
          "channel {}: {:.1f} to {:.1f} us</title></rect>\n",
          from, y + 1, width, kRow - 2, stage_of(*i).colour, i->round % 2 == 1 ? " fill-opacity=\"0.6\"" : "", i->round,
          i->shard, i->chunk, i->channel, i->begin_us, i->end_us);
    }
    return fmt::format("<rect x=\"{}\" y=\"{:.1f}\" width=\"{}\" height=\"{}\" fill=\"#f1f3f5\"/>\n", kLeft, y + 1,
                       kWidth, kRow - 2) +
           label(62, y + 13, name) + bars + label(kLeft - 32, y + 13, fmt::format("{:.0f}%", 100 * busy / end_us_));
  }
  std::string axis(double y) const {
    std::string text = fmt::format("<line x1=\"{0}\" y1=\"{2:.1f}\" x2=\"{1}\" y2=\"{2:.1f}\" stroke=\"#333\"/>\n",
                                   kLeft, kLeft + kWidth, y);
    for (int i = 0; i <= 10; ++i) {
      const double us = end_us_ * i / 10;
      text += fmt::format("<line x1=\"{0:.1f}\" y1=\"{1:.1f}\" x2=\"{0:.1f}\" y2=\"{2:.1f}\" stroke=\"#333\"/>\n",
                          x(us), y, y + 5);
      text += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>\n", x(us), y + 20,
                          format_time(us));
    }
    return text;
  }

  const CostProgram& program_;
  const Prediction& p_;
  std::string title_;
  double end_us_ = 1;
  std::map<Key, std::vector<const Interval*>> rows_;
};

}  // namespace

std::string timeline_svg(const CostProgram& program, const Prediction& prediction, const std::string& title) {
  return Picture(program, prediction, title).draw();
}

}  // namespace twohop::cli
