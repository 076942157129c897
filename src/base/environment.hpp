// The process's environment as text, and how numbers and names in it are read. The only place that touches it.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/options.hpp"

namespace twohop {

Environment process_environment();
/// The value of `name`; nothing when it is not set.
std::optional<std::string_view> lookup(const Environment& environment, std::string_view name);

constexpr int64_t kKi = 1 << 10, kMi = 1 << 20, kGi = 1 << 30;
/// A whole number of at least -1, with one of the suffixes K, M, G where allowed; nothing when it is none or too large.
std::optional<int64_t> parse_number(std::string_view text, bool with_suffix);
bool same_ignoring_case(std::string_view a, std::string_view b);

}  // namespace twohop
