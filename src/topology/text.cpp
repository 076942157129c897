// Text handling of the readers. Locale plays no part: std::from_chars only.
#include "topology/text.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

namespace twohop::topology {
namespace {

constexpr std::string_view kSpace = " \t\r\n\f\v";
constexpr size_t kShownBytes = 60;

/// Bytes of the well-formed UTF-8 character that the text begins with; 0 where it begins with something else.
size_t utf8_bytes(std::string_view text) {
  const auto byte = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U; };
  const auto continues = [&](size_t first, size_t last) {
    for (size_t i = first; i <= last; ++i)
      if (byte(i) >> 6 != 0b10) return false;
    return true;
  };
  if (byte(0) < 0x80) return 1;
  if (byte(0) >= 0xc2 && byte(0) <= 0xdf) return continues(1, 1) ? 2 : 0;
  if (byte(0) >> 4 == 0xe) {
    const bool overlong = byte(0) == 0xe0 && byte(1) < 0xa0, surrogate = byte(0) == 0xed && byte(1) > 0x9f;
    return !overlong && !surrogate && continues(1, 2) ? 3 : 0;
  }
  if (byte(0) >= 0xf0 && byte(0) <= 0xf4) {
    const bool overlong = byte(0) == 0xf0 && byte(1) < 0x90, too_high = byte(0) == 0xf4 && byte(1) > 0x8f;
    return !overlong && !too_high && continues(1, 3) ? 4 : 0;
  }
  return 0;
}

}  // namespace

std::string as_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const size_t bytes = utf8_bytes(text);
    if (bytes == 0)
      out += '?';
    else
      out += text.substr(0, bytes);
    text.remove_prefix(bytes == 0 ? 1 : bytes);
  }
  return out;
}

std::string_view trim(std::string_view text) {
  const size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  size_t begin = 0;
  for (size_t end; (end = text.find(separator, begin)) != std::string_view::npos; begin = end + 1)
    parts.push_back(text.substr(begin, end - begin));
  parts.push_back(text.substr(begin));
  return parts;
}

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  for (size_t at = text.find_first_not_of(kSpace); at != std::string_view::npos;) {
    const size_t end = std::min(text.find_first_of(kSpace, at), text.size());
    words.push_back(text.substr(at, end - at));
    at = text.find_first_not_of(kSpace, end);
  }
  return words;
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines = split(text, '\n');
  for (std::string_view& line : lines)
    while (line.ends_with('\r')) line.remove_suffix(1);
  return lines;
}

std::optional<int64_t> parse_int(std::string_view text, int64_t low, int64_t high) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < low || value > high) return std::nullopt;
  return value;
}

std::optional<uint64_t> parse_hex(std::string_view text) {
  if (text.starts_with("0x") || text.starts_with("0X")) text.remove_prefix(2);
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<double> leading_number(std::string_view text) {
  text = trim(text);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed);
  if (error != std::errc() || end == text.data() || !std::isfinite(value) || value < 0) return std::nullopt;
  return value;
}

std::string plain_number(double value) {
  std::array<char, 1100> text;  // the longest finite double has 1077 characters
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed).ptr;
  return {text.data(), end};
}

std::string shown(std::string_view text) {
  std::string out;
  for (const char c : text.substr(0, kShownBytes)) out += (c >= ' ' && c <= '~') ? c : '?';
  return text.size() > kShownBytes ? out + "..." : out;
}

bool all_digits(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace twohop::topology
