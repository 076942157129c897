// See plot_svg.hpp.
#include "plot_svg.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "plan_setup.hpp"
#include "svg_text.hpp"

namespace twohop::cli {
namespace {

constexpr double kLeft = 80, kTop = 50, kWidth = 640, kHeight = 400, kLegend = 190;
constexpr const char* kColours[] = {"#d9822b", "#2b6cb0", "#2f855a", "#805ad5", "#c53030",
                                    "#319795", "#718096", "#b7791f", "#d53f8c", "#4a5568"};

/// The logarithm's range, widened to whole steps of the grid.
struct Axis {
  double base, low, high;
  Axis(double base_, double from, double to) : base(base_) {
    low = std::floor(std::log(from) / std::log(base) + 1e-9);
    high = std::max(low + 1, std::ceil(std::log(to) / std::log(base) - 1e-9));
  }
  double place(double value) const { return (std::log(value) / std::log(base) - low) / (high - low); }
};

std::string text_at(double x, double y, const char* anchor, const std::string& text) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor, escaped(text));
}

class Chart {
 public:
  explicit Chart(const Plot& plot) : plot_(plot), x_(range(plot, true)), y_(range(plot, false)) {}

  std::string draw() const {
    std::string svg = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 {0:.0f} "
        "{1:.0f}\" "
        "font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
        kLeft + kWidth + kLegend, kTop + kHeight + 60);
    svg += fmt::format("<text x=\"{}\" y=\"26\" font-size=\"15\" font-weight=\"bold\">{}</text>\n", kLeft,
                       escaped(plot_.title));
    svg += grid();
    for (size_t i = 0; i < plot_.lines.size(); ++i) svg += line(i);
    return svg + "</svg>\n";
  }

 private:
  static Axis range(const Plot& plot, bool is_x) {
    double low = 1e300, high = 0;
    for (const PlotLine& l : plot.lines)
      for (const auto& [x, y] : l.points) {
        low = std::min(low, is_x ? x : y);
        high = std::max(high, is_x ? x : y);
      }
    if (high <= 0) low = high = 1;
    return {is_x ? (plot.x_is_bytes ? 4.0 : 2.0) : 10.0, low, high};
  }
  double x(double value) const { return kLeft + kWidth * x_.place(value); }
  double y(double value) const { return kTop + kHeight * (1 - y_.place(value)); }

  std::string grid() const {
    std::string svg;
    auto rule = [&](double x1, double y1, double x2, double y2) {
      svg += fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"#ddd\"/>\n", x1, y1,
                         x2, y2);
    };
    const double step = std::max(1.0, std::ceil((x_.high - x_.low) / 10));
    for (double i = x_.low; i <= x_.high; i += step) {
      const double value = std::pow(x_.base, i);
      rule(x(value), kTop, x(value), kTop + kHeight);
      svg += text_at(x(value), kTop + kHeight + 18, "middle",
                     plot_.x_is_bytes ? format_bytes(value) : fmt::format("{:.0f}", value));
    }
    for (double i = y_.low; i <= y_.high; ++i) {
      const double value = std::pow(y_.base, i);
      rule(kLeft, y(value), kLeft + kWidth, y(value));
      svg += text_at(kLeft - 8, y(value) + 4, "end", format_time(value));
    }
    return svg + text_at(kLeft + kWidth / 2, kTop + kHeight + 42, "middle", plot_.x_name);
  }
  std::string line(size_t i) const {
    const char* colour = kColours[i % std::size(kColours)];
    std::string points, marks;
    for (const auto& [px, py] : plot_.lines[i].points) {
      points += fmt::format("{:.1f},{:.1f} ", x(px), y(py));
      marks += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2.5\" fill=\"{}\"/>\n", x(px), y(py), colour);
    }
    const double at = kTop + 14 + 20 * static_cast<double>(i), left = kLeft + kWidth + 14;
    return fmt::format("<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"/>\n", points, colour) +
           marks +
           fmt::format("<line x1=\"{0}\" y1=\"{1}\" x2=\"{2}\" y2=\"{1}\" stroke=\"{3}\" stroke-width=\"3\"/>\n", left,
                       at - 4, left + 18, colour) +
           text_at(left + 24, at, "start", fitting(plot_.lines[i].name, kLegend - 45));
  }

  const Plot& plot_;
  Axis x_, y_;
};

}  // namespace

std::string plot_svg(const Plot& plot) {
  return Chart(plot).draw();
}

}  // namespace twohop::cli
