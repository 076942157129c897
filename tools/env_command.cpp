// `twohop env`: the TWOHOP_* variables as this process has them, and where each value comes from.
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include <algorithm>

#include "base/environment.hpp"
#include "base/options.hpp"
#include "command.hpp"

namespace twohop::cli {
namespace {

/// Control characters would act on the terminal.
std::string harmless(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < ' ' || c == 127; }, '?');
  return text;
}

int show(bool only_set) {
  const Environment environment = process_environment();
  const std::vector<OptionValue> values = option_values(environment);
  size_t name_width = 0, value_width = 0;
  for (const OptionValue& v : values) {
    name_width = std::max(name_width, v.name.size());
    value_width = std::max(value_width, std::min<size_t>(v.value.size(), 24));
  }
  std::string out;
  int code = kOk;
  for (const OptionValue& v : values) {
    if (!v.problem.empty()) code = fail(harmless(v.problem));
    if (only_set && !v.from_environment) continue;
    out += fmt::format("{:<{}}  {:<{}}  {}{}\n", v.name, name_width, v.value.empty() ? "-" : harmless(v.value),
                       value_width, v.from_environment ? "environment" : "default",
                       v.problem.empty() ? "" : ", not accepted");
  }
  std::vector<std::string> unknown;
  (void)parse_options(environment, &unknown);
  for (const std::string& warning : unknown) fmt::print(stderr, "twohop: warning: {}\n", harmless(warning));
  return print(out) == kOk ? code : kFailed;
}

}  // namespace

std::function<int()> add_env(CLI::App& app) {
  static bool only_set = false;
  app.add_flag("--set", only_set, "Only those that the environment sets");
  app.footer("Ends with 1 when a value is not accepted.");
  return [] { return show(only_set); };
}

}  // namespace twohop::cli
