// A subcommand of `twohop`: what main.cpp needs to know of it.
#pragma once

#include <functional>
#include <string>

namespace CLI {  // whose header takes seconds to compile
class App;
}

namespace twohop::cli {

/// What the process ends with. Usage errors are 2 as well.
enum ExitCode { kOk = 0, kFailed = 1, kUsage = 2 };

struct Command {
  const char* name;
  const char* help;
  /// Adds options to the subcommand; what it returns runs after parsing and returns an ExitCode.
  std::function<int()> (*add)(CLI::App& app);
};

std::function<int()> add_topo(CLI::App& app);
std::function<int()> add_doctor(CLI::App& app);
std::function<int()> add_env(CLI::App& app);
std::function<int()> add_plan(CLI::App& app);
std::function<int()> add_simulate(CLI::App& app);
std::function<int()> add_trace(CLI::App& app);

/// Prints "twohop: <message>" on stderr and returns kFailed.
int fail(const std::string& message);
/// Writes to stdout. A reader that has gone (twohop topo | head) is no failure; a full disk is.
int print(const std::string& text);

}  // namespace twohop::cli
