// Names of files that every process or rank writes for itself: %h is the host, %p the process, %r the rank.
#pragma once

#include <string>
#include <string_view>

namespace twohop {

std::string host_name();
std::string replace_all(std::string text, std::string_view what, std::string_view with);

/// `rank` < 0: not of a rank, %r stays.
std::string expand_file_name(const std::string& pattern, int rank = -1);

}  // namespace twohop
