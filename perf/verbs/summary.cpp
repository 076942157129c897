// See summary.hpp.
#include "summary.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>

namespace twohop::verbs_perf {
namespace {

constexpr size_t kMaxLines = 8;  // of pairs, for each factor
constexpr size_t kMaxCaveats = 40;

/// What each factor's ratio does not prove, and what would.
struct Caveat {
  std::string_view factor;
  const char* text;
};
constexpr Caveat kCaveats[] = {
    {"op",
     "operations differ in the direction of the data, in who works and in their limits (READs and atomics in flight): "
     "the "
     "ratio does not say which of these it is. Missing: PCIe and responder-side counters of the devices."},
    {"bytes",
     "larger messages spread the costs of a message over more bytes; whether the wire, the device or the CPU limits is "
     "not "
     "shown. Compare t_post with t_compl; missing: the link's rate as negotiated, and the CPU time of both ends."},
    {"qps",
     "more queue pairs being faster is no proof of ECMP (or of a bond's hash): a queue pair may be limited by its own "
     "window, "
     "by the device's work on one queue pair, or by one core. Missing: byte counters of each uplink, taken at the "
     "switches "
     "during both rows; the UDP source ports in use; a row with one queue pair and as many requests in flight (raise "
     "-t)."},
    {"rail",
     "rails differ in device, PCIe slot, NUMA node, cable and switch port, and two rails together may share a PCIe "
     "link or an "
     "uplink. Missing: counters of each switch port and uplink, PCIe counters, the NUMA placement of both processes."},
    {"direction",
     "both directions together may be limited by the wire, by PCIe, by memory or by one core of each host; the ratio "
     "does not "
     "say by which. Missing: the same with the ends' processes pinned, and PCIe counters."},
    {"batch",
     "a longer list saves doorbells, and also signals and polls in other places (see the doorbells and signalled "
     "completions "
     "in the JSON file): the gain is not that of the doorbell alone. Missing: CPU time per message of the posting "
     "core."},
    {"mtu",
     "the path MTU set here says nothing about what the network carries best: switches may count, buffer and mark "
     "packets "
     "otherwise. Missing: the MTU and drop counters of every switch port on the way."},
    {"gid",
     "another GID is another address: RoCE version, VLAN, route, priority and the hash of the path may all have "
     "changed with "
     "it. Missing: the route and traffic class of both, and per-priority and per-uplink counters of the switches."},
    {"inline",
     "inline data saves the device a read of the host's memory and costs the CPU a copy: bandwidth does not separate "
     "them. "
     "Compare t_post with t_compl; missing: PCIe read counters."},
};

const char* caveat_of(const Factor& f) {
  for (const Caveat& c : kCaveats)
    if (c.factor == f.name) return c.text;
  return "";
}

uint64_t bytes_in_flight(const RowResult& r) {
  const auto rails = static_cast<uint64_t>(std::count(r.row.rail.begin(), r.row.rail.end(), '+')) + 1;
  return rails * static_cast<uint64_t>(r.row.qps) * static_cast<uint64_t>(r.row.tx_depth) * r.row.size;
}

/// What limits all conclusions of a run.
std::string of_all(const RunInfo& info) {
  if (info.emulated)
    return "the device is emulated: the figures are those of this machine's cores and of SOFTNIC's settings.";
  return info.one_host ? "both ends are on one host: no switch, and perhaps no wire, was involved." : "";
}

std::string other_factors(const Difference& d) {
  std::string text;
  for (const Factor& f : factors())
    if (&f != d.factor) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", f.name, f.value(d.before->row));
  return text;
}

}  // namespace

std::vector<Difference> single_factor_differences(const std::vector<Group>& groups) {
  std::vector<Difference> all;
  for (const Factor& factor : factors())
    for (size_t i = 0; i < groups.size(); ++i)
      for (size_t j = i + 1; j < groups.size(); ++j) {
        const Group &a = groups[i], &b = groups[j];
        const auto differ = differing(a.first->row, b.first->row);
        if (differ.size() != 1 || differ.front() != &factor || a.median_mib_per_s <= 0) continue;
        all.push_back({&factor, a.first, b.first, b.median_mib_per_s / a.median_mib_per_s, std::max(a.spread, b.spread),
                       std::min(a.repeats, b.repeats), a.retries, b.retries});
        break;
      }
  return all;
}

std::string judgement(const Difference& d) {
  const std::string ratio = fmt::format("x{:.2f}", d.ratio);
  if (d.repeats < 2) return ratio + " (one repeat: no spread is known; give --repeat 3)";
  if (std::abs(d.ratio - 1) <= d.noise)
    return fmt::format("{} (no difference: within the spread of the repeats, {:.0f} %)", ratio, d.noise * 100);
  return fmt::format("{} (beyond the spread of the repeats, {:.0f} %)", ratio, d.noise * 100);
}

std::vector<std::string> missing_evidence(const Difference& d, const RunInfo& info) {
  std::vector<std::string> all{caveat_of(*d.factor)};
  const uint64_t before = bytes_in_flight(*d.before), after = bytes_in_flight(*d.after);
  if (before != after)
    all.push_back(fmt::format("the bytes that may be in flight changed with it, {} -> {}.", before, after));
  if (d.retries_before != d.retries_after)
    all.push_back(fmt::format("retries moved too, {} -> {}: packets were lost or late, and that costs time of its own.",
                              d.retries_before, d.retries_after));
  if (const std::string text = of_all(info); !text.empty()) all.push_back(text);
  return all;
}

std::string summary_text(const std::vector<RowResult>& rows, const RunInfo& info) {
  const std::vector<Group> groups = group_repeats(rows);
  const std::vector<Difference> all = single_factor_differences(groups);
  if (all.empty()) return "";
  std::string text = "#\n# Single factors: rows that differ in one value only, by the medians of BW average\n";
  std::set<std::string> said;
  std::map<const Factor*, size_t> lines;
  std::string caveats;
  for (const Difference& d : all) {
    if (++lines[d.factor] <= kMaxLines)
      text += fmt::format("#   {} {} -> {}: {}  [{}]\n", d.factor->name, d.factor->value(d.before->row),
                          d.factor->value(d.after->row), judgement(d), other_factors(d));
    for (const std::string& evidence : missing_evidence(d, info)) {
      // What holds for all factors is said once.
      const std::string line = fmt::format("#   {}: {}\n", evidence == of_all(info) ? "all" : d.factor->name, evidence);
      if (said.size() < kMaxCaveats && said.insert(line).second) caveats += line;
    }
  }
  for (const auto& [factor, n] : lines)
    if (n > kMaxLines) text += fmt::format("#   {}: {} pairs more, see --json\n", factor->name, n - kMaxLines);
  return text + "# What these comparisons cannot show\n" + caveats;
}

nlohmann::json summary_json(const std::vector<RowResult>& rows, const RunInfo& info) {
  nlohmann::json list = nlohmann::json::array();
  const std::vector<Group> groups = group_repeats(rows);
  for (const Difference& d : single_factor_differences(groups))
    list.push_back({{"factor", d.factor->name},
                    {"from", d.factor->value(d.before->row)},
                    {"to", d.factor->value(d.after->row)},
                    {"others", other_factors(d)},
                    {"ratio", d.ratio},
                    {"spread", d.noise},
                    {"repeats", d.repeats},
                    {"judgement", judgement(d)},
                    {"cannot_show", missing_evidence(d, info)}});
  return list;
}

}  // namespace twohop::verbs_perf
