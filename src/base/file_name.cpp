// See file_name.hpp.
#include "base/file_name.hpp"

#include <unistd.h>

#include <array>

namespace twohop {

std::string host_name() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) return "host";
  return name.data();
}

std::string replace_all(std::string text, std::string_view what, std::string_view with) {
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += with.size())
    text.replace(at, what.size(), with);
  return text;
}

std::string expand_file_name(const std::string& pattern, int rank) {
  const std::string name = replace_all(replace_all(pattern, "%h", host_name()), "%p", std::to_string(getpid()));
  return rank < 0 ? name : replace_all(name, "%r", std::to_string(rank));
}

}  // namespace twohop
