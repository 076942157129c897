// The log: one line per event, to stderr or TWOHOP_DEBUG_FILE (%h host, %p pid), at TWOHOP_DEBUG's level.
//
// What each level promises: error = cannot go on; warn = degraded, once per cause; info = per communicator;
// debug = per connection; trace = per step. Never called on the path from submit to completion.
#pragma once

#include <fmt/format.h>

#include <string_view>

namespace twohop {

enum class LogLevel : unsigned char { kNone, kError, kWarn, kInfo, kDebug, kTrace };

bool log_enabled(LogLevel level);
void log_line(LogLevel level, std::string_view text);

template <class... Args>
void log(LogLevel level, fmt::format_string<Args...> f, Args&&... args) {
  if (log_enabled(level)) log_line(level, fmt::format(f, std::forward<Args>(args)...));
}
template <class... Args>
void log_warn(fmt::format_string<Args...> f, Args&&... args) {
  log(LogLevel::kWarn, f, std::forward<Args>(args)...);
}
template <class... Args>
void log_info(fmt::format_string<Args...> f, Args&&... args) {
  log(LogLevel::kInfo, f, std::forward<Args>(args)...);
}
template <class... Args>
void log_debug(fmt::format_string<Args...> f, Args&&... args) {
  log(LogLevel::kDebug, f, std::forward<Args>(args)...);
}

}  // namespace twohop
