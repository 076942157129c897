// See environment.hpp.
#include "base/environment.hpp"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <string>

namespace twohop {
namespace {

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

int64_t suffix_factor(std::string_view suffix) {
  if (suffix.empty()) return 1;
  if (suffix.size() > 1) return 0;
  switch (lower(suffix[0])) {
    case 'k':
      return kKi;
    case 'm':
      return kMi;
    case 'g':
      return kGi;
    default:
      return 0;
  }
}

}  // namespace

Environment process_environment() {
  Environment environment;
  for (char** entry = environ; entry && *entry; ++entry) environment.emplace_back(*entry);
  return environment;
}

std::optional<std::string_view> lookup(const Environment& environment, std::string_view name) {
  for (const std::string& entry : environment)
    if (entry.size() > name.size() + 1 && entry.starts_with(name) && entry[name.size()] == '=')
      return std::string_view(entry).substr(name.size() + 1);
  return std::nullopt;
}

bool same_ignoring_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) { return lower(x) == lower(y); });
}

std::optional<int64_t> parse_number(std::string_view text, bool with_suffix) {
  int64_t number = 0;
  auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failure != std::errc()) return std::nullopt;
  std::string_view suffix = text.substr(static_cast<size_t>(end - text.data()));
  int64_t factor = with_suffix ? suffix_factor(suffix) : suffix.empty() ? 1 : 0;
  if (factor == 0 || number < -1 || number > std::numeric_limits<int64_t>::max() / factor) return std::nullopt;
  return number * factor;
}

}  // namespace twohop
