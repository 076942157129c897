// `twohop topo --svg`: NUMA nodes as rows, switches as frames, GPUs and ports as cells. Colours join a GPU to its
// rails, so no line has to cross anything.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "svg_text.hpp"
#include "topo_report.hpp"
#include "topo_tree.hpp"
#include "topology/enums.hpp"

namespace twohop::cli {
namespace {

using namespace topology;

constexpr double kCellWidth = 150, kLine = 17, kPad = 10, kGap = 10, kTitle = 22, kBadge = 22, kMaxWidth = 1180,
                 kMinTitle = 200;
constexpr size_t kBadgesPerLine = 5, kMaxMessages = 12;

struct Size {
  double w = 0, h = 0;
};

/// A GPU or a port.
struct Cell {
  bool is_gpu = false;
  int index = 0;
};

class Picture {
 public:
  explicit Picture(const TopoReport& r) : r_(r), m_(r.machine) {}

  std::string draw() {
    double y = 46;
    double width = 420;
    for (const TreeNode& numa : display_tree(m_)) {
      const Size size = box(numa, kMaxWidth);
      place(numa, kPad, y, kMaxWidth, true);
      y += size.h + kGap;
      width = std::max(width, size.w + 2 * kPad);
    }
    header(width);
    y = messages(y + 8, width);
    return fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 {0:.0f} "
        "{1:.0f}\" "
        "font-family=\"DejaVu Sans, Verdana, sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" "
        "fill=\"#ffffff\"/>\n{2}</svg>\n",
        width, y + kPad, out_);
  }

 private:
  std::vector<Cell> cells(const TreeNode& node) const {
    std::vector<Cell> list;
    for (int g : node.gpus) list.push_back({true, g});
    for (int n : node.nets)
      if (m_.nets[n].kind != NetKind::kVirtual) list.push_back({false, n});
    return list;
  }

  std::vector<int> badges(const Cell& c) const {
    if (c.is_gpu) return r_.choice.assignment[c.index].rails;
    const Rail* rail = rail_of(r_, c.index);
    return rail ? std::vector<int>{rail->number} : std::vector<int>{};
  }

  double height(const Cell& c) const {
    const size_t lines = (badges(c).size() + kBadgesPerLine - 1) / kBadgesPerLine;
    return kPad + (1 + static_cast<double>(details(c).size())) * kLine + 4 + static_cast<double>(lines) * (kBadge - 2);
  }

  bool is_empty(const TreeNode& node) const {
    return cells(node).empty() &&
           std::all_of(node.children.begin(), node.children.end(), [this](const TreeNode& c) { return is_empty(c); });
  }

  /// Walks the parts of a frame from left to right, in lines no wider than `limit`; gives each its place.
  template <class At>
  Size flow(const TreeNode& node, double limit, At at) const {
    double x = 0, y = 0, line = 0;
    Size all;
    const auto next = [&](const Size& size, const auto& put) {
      if (x > 0 && x + size.w > limit) x = 0, y += line + kGap, line = 0;
      put(x, y);
      x += size.w + kGap;
      line = std::max(line, size.h);
      all.w = std::max(all.w, x - kGap);
      all.h = y + line;
    };
    for (const Cell& c : cells(node))
      next({kCellWidth, height(c)}, [&](double px, double py) { at(px, py, &c, nullptr); });
    for (const TreeNode& child : node.children)
      if (!is_empty(child)) next(box(child, limit), [&](double px, double py) { at(px, py, nullptr, &child); });
    return all;
  }

  /// A frame around cells and frames. A device with one cell and no title needs none.
  Size box(const TreeNode& node, double limit) const {
    const Size inner = flow(node, limit - 2 * kPad, [](double, double, const Cell*, const TreeNode*) {});
    if (node.title.empty()) return inner;
    return {std::max(inner.w, std::min(text_width(node.title), kMinTitle)) + 2 * kPad, inner.h + kTitle + kPad};
  }

  void place(const TreeNode& node, double x, double y, double limit, bool numa) {
    const Size size = box(node, limit);
    double dx = 0, dy = 0;
    if (!node.title.empty()) {
      const char* fill = numa ? "#f4f1ea" : node.is_device() ? "#ffffff" : "#e6ebf0";
      out_ += fmt::format(
          "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" rx=\"5\" fill=\"{}\" "
          "stroke=\"#8a8f98\"/>\n",
          x, y, size.w, size.h, fill);
      text(x + kPad, y + 15, fitting(node.title, size.w - 2 * kPad),
           numa ? "font-weight=\"bold\"" : "fill=\"#555\" font-size=\"11\"");
      dx = kPad, dy = kTitle;
    }
    flow(node, limit - 2 * kPad, [&](double px, double py, const Cell* cell, const TreeNode* child) {
      if (cell)
        draw_cell(*cell, x + dx + px, y + dy + py);
      else
        place(*child, x + dx + px, y + dy + py, limit - 2 * kPad, false);
    });
  }

  std::string name(const Cell& c) const { return c.is_gpu ? m_.gpus[c.index].name : port_name(m_, c.index); }

  /// What stands beneath the name, a line each.
  std::vector<std::string> details(const Cell& c) const {
    if (!c.is_gpu) return {port_detail(m_.nets[c.index], rail_of(r_, c.index) != nullptr)};
    const GpuRails& a = r_.choice.assignment[c.index];
    std::vector<std::string> lines = {
        a.rails.empty() ? "no rail" : fmt::format("{} to its rail{}", name_of(a.path), a.rails.size() > 1 ? "s" : "")};
    const std::string links = links_text(m_, c.index);
    if (!links.empty()) lines.push_back(links.substr(0, links.find(" to switches")));
    return lines;
  }

  static std::string port_detail(const NetPort& p, bool is_rail) {
    const std::string state = p.state == LinkState::kDown ? "down" : speed_text(p.gbit_per_s);
    if (is_rail) return state;
    const bool rdma = p.kind == NetKind::kRdma || p.kind == NetKind::kOtherRdma;
    return state + (state.empty() ? "" : ", ") + (rdma ? "no rail" : "no RDMA");
  }

  void draw_cell(const Cell& c, double x, double y) {
    const bool used = !badges(c).empty();
    const char* fill = c.is_gpu ? "#dff0d8" : used ? "#d9e8f7" : "#eeeeee";
    out_ += fmt::format(
        "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.0f}\" height=\"{:.1f}\" rx=\"4\" fill=\"{}\" "
        "stroke=\"{}\"/>\n",
        x, y, kCellWidth, height(c), fill,
        c.is_gpu ? "#5b9a48"
        : used   ? "#4a7fb5"
                 : "#999999");
    text(x + 8, y + 17, fitting(name(c), kCellWidth - 16), "font-weight=\"bold\"");
    double line = y + 17;
    for (const std::string& detail : details(c))
      text(x + 8, line += kLine, fitting(detail, kCellWidth - 12), "font-size=\"11\" fill=\"#333\"");
    const std::vector<int> numbers = badges(c);
    for (size_t i = 0; i < numbers.size(); ++i)
      badge(numbers[i], x + 8 + static_cast<double>(i % kBadgesPerLine) * (kBadge + 1),
            line + 9 + static_cast<double>(i / kBadgesPerLine) * (kBadge - 2));
  }

  void badge(int number, double x, double y) {
    out_ += fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.0f}\" height=\"17\" rx=\"3\" fill=\"{}\"/>\n", x, y,
                        kBadge, colour(number));
    out_ += fmt::format(
        "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\" font-size=\"11\" fill=\"#ffffff\">{}</text>\n",
        x + kBadge / 2, y + 12.5, number);
  }

  /// Neighbouring numbers are far apart on the circle of hues.
  static std::string colour(int number) {
    const double hue = std::fmod(210 + number * 137.508, 360), chroma = 0.45, base = 0.2;
    const double position = hue / 60, x = chroma * (1 - std::abs(std::fmod(position, 2) - 1));
    constexpr std::array<std::array<int, 3>, 6> kOrder = {
        {{2, 1, 0}, {1, 2, 0}, {0, 2, 1}, {0, 1, 2}, {1, 0, 2}, {2, 0, 1}}};
    const std::array<double, 3> value = {0, x, chroma};
    std::string hex = "#";
    for (int part : kOrder[static_cast<size_t>(position) % 6])
      hex += fmt::format("{:02x}", static_cast<int>(255 * (base + value[static_cast<size_t>(part)])));
    return hex;
  }

  void text(double x, double y, const std::string& content, const char* style) {
    out_ += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" {}>{}</text>\n", x, y, style, escaped(content));
  }

  void header(double width) {
    text(kPad, 22, fitting(m_.source, width - 2 * kPad), "font-size=\"15\" font-weight=\"bold\"");
    text(kPad, 39,
         fitting(fmt::format("{} GPUs, {} rails{}. A coloured number is a rail: a GPU uses the ports of its numbers.",
                             m_.gpus.size(), r_.choice.rails.size(), r_.choice.verbs ? "" : " (not usable over verbs)"),
                 width - 2 * kPad),
         "font-size=\"11\" fill=\"#555\"");
  }

  double messages(double y, double width) {
    std::vector<std::string> lines = r_.choice.warnings;
    const auto hidden =
        std::count_if(m_.nets.begin(), m_.nets.end(), [](const NetPort& p) { return p.kind == NetKind::kVirtual; });
    if (hidden > 0) lines.push_back(fmt::format("{} virtual interfaces are not drawn", hidden));
    if (lines.size() > kMaxMessages) {
      const size_t more = lines.size() - kMaxMessages;
      lines.resize(kMaxMessages);
      lines.push_back(fmt::format("and {} more: twohop topo prints all", more));
    }
    for (const std::string& line : lines)
      for (const std::string& part : wrapped(line, width - 2 * kPad)) {
        y += kLine;
        text(kPad, y, part, "font-size=\"11\" fill=\"#9a4a00\"");
      }
    return y;
  }

  const TopoReport& r_;
  const Machine& m_;
  std::string out_;
};

}  // namespace

std::string topo_svg(const TopoReport& report) {
  return Picture(report).draw();
}

}  // namespace twohop::cli
