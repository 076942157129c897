// See verbs_hw_counters.hpp.
#include "transport/verbs/verbs_hw_counters.hpp"

#include <fmt/format.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>

namespace twohop::verbs {
namespace {

/// Parts of the names under which drivers report trouble; the others count traffic.
constexpr std::array<std::string_view, 15> kTrouble = {
    "err",           "retry",     "retries", "rnr", "timeout", "out_of_seq", "duplicate", "discard",
    "out_of_buffer", "link_down", "nak",     "cnp", "ecn",     "drop",       "flush"};

bool stands_for_trouble(std::string_view name) {
  for (std::string_view part : kTrouble)
    if (name.find(part) != std::string_view::npos) return true;
  return false;
}

void read_folder(const std::filesystem::path& folder, HwCounters& into) {
  std::error_code failed;
  for (const auto& file : std::filesystem::directory_iterator(folder, failed)) {
    std::ifstream in(file.path());
    if (uint64_t value = 0; in >> value) into[file.path().filename().string()] = value;
  }
}

}  // namespace

HwCounters read_hw_counters(const std::string& ibdev_path, int port) {
  HwCounters counters;
  const auto base = std::filesystem::path(ibdev_path) / "ports" / std::to_string(port);
  read_folder(base / "counters", counters);
  read_folder(base / "hw_counters", counters);
  return counters;
}

std::string moved(const HwCounters& before, const HwCounters& now) {
  std::string text;
  for (const auto& [name, value] : now) {
    const auto it = before.find(name);
    const uint64_t old = it == before.end() ? 0 : it->second;
    if (value <= old || !stands_for_trouble(name)) continue;
    text += fmt::format("{}{} +{}", text.empty() ? "" : ", ", name, value - old);
  }
  return text.empty() ? "none" : text;
}

}  // namespace twohop::verbs
