// `twohop doctor`: runs the checks of doctor.hpp and prints what they found, for people or as JSON.
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/environment.hpp"
#include "command.hpp"
#include "doctor.hpp"

namespace twohop::cli {
namespace {

namespace fs = std::filesystem;

/// What is read comes from files and variables: control characters would act on the terminal.
std::string harmless(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < ' ' || c == 127; }, '?');
  return text;
}

std::string as_text(const std::vector<Finding>& findings, bool only_problems) {
  std::string out;
  for (const Finding& f : findings) {
    if (only_problems && f.level < Level::kWarning) continue;
    out += harmless(fmt::format("{:<8} {:<28} {}", level_name(f.level), f.check, f.found)) + "\n";
    if (!f.meaning.empty()) out += harmless(fmt::format("         {}", f.meaning)) + "\n";
    if (!f.next.empty()) out += harmless(fmt::format("         next: {}", f.next)) + "\n";
  }
  return out;
}

std::string as_json(const std::vector<Finding>& findings, size_t errors, size_t warnings) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Finding& f : findings)
    list.push_back({{"level", level_name(f.level)},
                    {"check", f.check},
                    {"found", f.found},
                    {"meaning", f.meaning},
                    {"next", f.next}});
  const nlohmann::ordered_json all{{"errors", errors}, {"warnings", warnings}, {"findings", list}};
  return all.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

int examine(const std::string& root, bool json, bool only_problems) {
  std::error_code failed;
  if (!fs::is_directory(root, failed)) return fail(fmt::format("--root {}: no such folder", root));
  const std::vector<Finding> findings = Doctor(root, process_environment()).examine();
  const auto count = [&](Level level) {
    return static_cast<size_t>(
        std::count_if(findings.begin(), findings.end(), [&](auto& f) { return f.level == level; }));
  };
  const size_t errors = count(Level::kError), warnings = count(Level::kWarning);
  const std::string text =
      json ? as_json(findings, errors, warnings)
           : as_text(findings, only_problems) + fmt::format("{} errors, {} warnings\n", errors, warnings);
  if (print(text) != kOk) return kFailed;
  return errors == 0 ? kOk : kFailed;
}

}  // namespace

const char* level_name(Level level) {
  static constexpr const char* kNames[] = {"ok", "info", "warning", "error"};
  return kNames[static_cast<size_t>(level)];
}

std::vector<Finding> Doctor::examine() {
  for (const auto check : {&Doctor::variables, &Doctor::devices, &Doctor::limits, &Doctor::memory, &Doctor::gpu_direct,
                           &Doctor::access_control, &Doctor::interfaces, &Doctor::rendezvous_port,
                           &Doctor::packet_filter, &Doctor::libraries})
    (this->*check)();
  return std::move(findings_);
}

std::optional<std::string> Doctor::line_of(const fs::path& file) const {
  std::ifstream in(root_ / file);
  std::string line;
  if (!std::getline(in, line)) return std::nullopt;
  return line;
}

std::vector<std::string> Doctor::names_in(const fs::path& folder) const {
  std::vector<std::string> names;
  std::error_code failed;
  for (fs::directory_iterator it(root_ / folder, failed), end; !failed && it != end; it.increment(failed))
    names.push_back(it->path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

std::function<int()> add_doctor(CLI::App& app) {
  static std::string root = "/";
  static bool json = false, only_problems = false;
  app.add_option("--root", root, "Reads /sys, /proc and /dev below this folder: the tree of another host");
  app.add_flag("--json", json, "Everything that was found, as JSON");
  app.add_flag("--problems", only_problems, "Only warnings and errors");
  app.footer("Ends with 1 when there is an error.");
  return [] { return examine(root, json, only_problems); };
}

}  // namespace twohop::cli
