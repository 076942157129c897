// twohop: the command. Picks the subcommand; each has a file of its own.
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <utility>
#include <vector>

#include "command.hpp"
#include "twohop/twohop.h"

namespace twohop::cli {

constexpr Command kCommands[] = {
    {"topo", "This machine or a file of one: its tree, which GPU uses which port, and why", add_topo},
    {"doctor", "What about this host would make the library fail or be slow, and what to do", add_doctor},
    {"env", "The TWOHOP_* variables: value and source of each", add_env},
    {"plan", "What a call would cost on some cluster, which algorithm is chosen, and why", add_plan},
    {"simulate", "Time against size and nodes, up to clusters that one does not have", add_simulate},
    {"trace", "From files of TWOHOP_TRACE: the share of time in which nothing is on the wire, and a picture", add_trace},
};

int fail(const std::string& message) {
  fmt::print(stderr, "twohop: {}\n", message);
  return kFailed;
}

int print(const std::string& text) {
  errno = 0;
  const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
  if (written || errno == EPIPE) return kOk;
  return fail(fmt::format("cannot write to standard output: {}", std::strerror(errno)));
}

std::string version() {
  return fmt::format("twohop {}.{}.{}", TWOHOP_VERSION_CODE / 10000, TWOHOP_VERSION_CODE / 100 % 100,
                     TWOHOP_VERSION_CODE % 100);
}

int run(int argc, char** argv) {
  CLI::App app("Looks at what the twohop library would do, without running it.", "twohop");
  app.set_version_flag("--version", version());
  app.require_subcommand(1);
  std::vector<std::pair<CLI::App*, std::function<int()>>> commands;
  for (const Command& c : kCommands) {
    CLI::App* sub = app.add_subcommand(c.name, c.help);
    commands.emplace_back(sub, c.add(*sub));
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? kOk : kUsage;
  }
  for (const auto& [sub, body] : commands)
    if (sub->parsed()) return body();
  return kUsage;
}

}  // namespace twohop::cli

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);  // print() tells a closed pipe from other failures
  return twohop::cli::run(argc, argv);
}
