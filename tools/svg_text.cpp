// See svg_text.hpp.
#include "svg_text.hpp"

#include <algorithm>

namespace twohop::cli {
namespace {

constexpr double kCharacter = 7.3;

size_t room(double width) {
  return static_cast<size_t>(std::max(4.0, width / kCharacter));
}

}  // namespace

double text_width(const std::string& text) {
  return kCharacter * static_cast<double>(text.size());
}

std::string fitting(const std::string& text, double width) {
  const size_t most = room(width);
  return text.size() <= most ? text : text.substr(0, most - 3) + "...";
}

std::vector<std::string> wrapped(const std::string& text, double width) {
  const size_t most = room(width);
  std::vector<std::string> lines;
  size_t begin = 0;
  while (text.size() - begin > most) {
    size_t end = text.rfind(' ', begin + most);
    if (end == std::string::npos || end <= begin) end = begin + most;
    lines.push_back(text.substr(begin, end - begin));
    begin = end + (text[end] == ' ' ? 1 : 0);
  }
  lines.push_back(text.substr(begin));
  return lines;
}

std::string escaped(const std::string& text) {
  std::string out;
  for (char c : text) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '"')
      out += "&quot;";
    else
      out += c >= ' ' && c < 127 ? c : '?';
  }
  return out;
}

}  // namespace twohop::cli
