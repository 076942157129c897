// See verbs_hw_counters.hpp.
#include "transport/verbs/verbs_hw_counters.hpp"

#include <fmt/format.h>

#include <algorithm>
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

std::filesystem::path port_folder(const std::string& ibdev_path, int port, const char* folder) {
  return std::filesystem::path(ibdev_path) / "ports" / std::to_string(port) / folder;
}

/// Names of the counters that add up to the retries of a requester, by family of drivers. A device may have the names
/// of two families for the same events: the first that it knows is used.
using Family = std::array<std::string_view, 4>;
constexpr std::array<Family, 3> kRetryFamilies = {{
    {"local_ack_timeout_err", "packet_seq_err", "implied_nak_seq_err", "rnr_nak_retry_err"},  // mlx4, mlx5, softnic
    {"completer_retry_err", "rcvd_rnr_err", "", ""},               // rxe: the first covers timeouts and sequence NAKs
    {"to_retransmits", "seq_err_naks_rcvd", "rnr_naks_rcvd", ""},  // bnxt_re
}};

/// `value(name)` is an optional counter.
template <class Value>
std::optional<uint64_t> sum_of_retries(Value&& value) {
  for (const Family& family : kRetryFamilies) {
    std::optional<uint64_t> sum = value(family.front());
    if (!sum) continue;
    for (size_t i = 1; i < family.size() && !family[i].empty(); ++i) *sum += value(family[i]).value_or(0);
    return sum;
  }
  return std::nullopt;
}

}  // namespace

HwCounters read_hw_counters(const std::string& ibdev_path, int port, const char* folder) {
  HwCounters counters;
  read_folder(port_folder(ibdev_path, port, folder), counters);
  return counters;
}

HwCounters read_hw_counters(const std::string& ibdev_path, int port) {
  HwCounters counters = read_hw_counters(ibdev_path, port, "counters");
  counters.merge(read_hw_counters(ibdev_path, port, "hw_counters"));
  return counters;
}

std::optional<uint64_t> retries_in(const HwCounters& counters) {
  return sum_of_retries([&](std::string_view name) -> std::optional<uint64_t> {
    const auto it = counters.find(std::string(name));
    if (it == counters.end()) return std::nullopt;
    return it->second;
  });
}

uint64_t not_ready_in(const HwCounters& counters) {
  uint64_t sum = 0;
  for (const char* name : {"rnr_nak_retry_err", "rcvd_rnr_err", "rnr_naks_rcvd"})  // each family has one of them
    if (const auto it = counters.find(name); it != counters.end()) sum = std::max(sum, it->second);
  return sum;
}

std::optional<uint64_t> read_retries(const std::string& ibdev_path, int port) {
  const auto folder = port_folder(ibdev_path, port, "hw_counters");
  return sum_of_retries([&](std::string_view name) -> std::optional<uint64_t> {
    std::ifstream in(folder / name);
    uint64_t value = 0;
    if (!(in >> value)) return std::nullopt;
    return value;
  });
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
