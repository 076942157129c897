// A chart with logarithmic axes: lines of time against size or nodes.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace twohop::cli {

struct PlotLine {
  std::string name;
  std::vector<std::pair<double, double>> points;  // x > 0, y in us > 0
};

struct Plot {
  std::string title, x_name;
  bool x_is_bytes = false;
  std::vector<PlotLine> lines;
};

std::string plot_svg(const Plot& plot);

}  // namespace twohop::cli
