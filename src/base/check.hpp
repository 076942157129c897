// TWOHOP_CHECK: an invariant of ours is broken. Prints the values and aborts; never for bad user input.
#pragma once

#include <fmt/format.h>

#include <string_view>

namespace twohop {

[[noreturn]] void check_failed(const char* file, int line, const char* condition, const std::string& values);

}  // namespace twohop

#define TWOHOP_CHECK(cond, ...)                                                    \
  do {                                                                             \
    if (!(cond)) [[unlikely]]                                                      \
      ::twohop::check_failed(__FILE__, __LINE__, #cond, fmt::format(__VA_ARGS__)); \
  } while (0)
