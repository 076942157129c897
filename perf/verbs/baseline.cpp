// See baseline.hpp.
#include "baseline.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "summary.hpp"

namespace twohop::verbs_perf {
namespace {

using Settings = std::vector<std::pair<std::string, std::string>>;

std::string text_of(const nlohmann::json& j) {
  return j.is_string() ? j.get<std::string>() : j.dump();
}

/// What is the same in all rows of a run, or belongs to the run.
Settings settings_of(const nlohmann::json& config, const RowSpec& row) {
  Settings all;
  for (const char* name : {"version", "library", "client_host", "server_host"})
    all.emplace_back(name, config.is_object() && config.contains(name) ? text_of(config.at(name)) : "?");
  all.emplace_back("-n", row.duration_s > 0 ? "-" : std::to_string(row.iterations));
  all.emplace_back("-D", fmt::format("{:g}", row.duration_s));
  all.emplace_back("-t", std::to_string(row.tx_depth));
  all.emplace_back("-Q", std::to_string(row.cq_mod));
  all.emplace_back("-u", std::to_string(row.timeout));
  all.emplace_back("--retry_count", std::to_string(row.retries));
  all.emplace_back("-S", std::to_string(row.service_level));
  all.emplace_back("--tclass", std::to_string(row.traffic_class));
  return all;
}

std::vector<std::string> changes(const Settings& before, const Settings& after) {
  std::vector<std::string> all;
  for (size_t i = 0; i < before.size(); ++i)
    if (before[i].second != after[i].second)
      all.push_back(fmt::format("{} {} -> {}", before[i].first, before[i].second, after[i].second));
  return all;
}

std::string what_changed(const std::vector<std::string>& changed) {
  if (changed.empty())
    return "no setting changed: the machines, their software or their load did, and this comparison cannot tell which";
  if (changed.size() == 1) return "the single setting that changed: " + changed.front();
  std::string text = fmt::format("{} settings changed, so that no single factor can be named:", changed.size());
  for (const std::string& c : changed) text += " " + c + ";";
  return text;
}

/// The baseline's same configuration, or one that differs in one factor only; null: neither.
const Group* partner_of(const Group& now, const std::vector<Group>& base) {
  for (size_t factors : {0u, 1u})
    for (const Group& b : base)
      if (differing(b.first->row, now.first->row).size() == factors && b.median_mib_per_s > 0) return &b;
  return nullptr;
}

}  // namespace

Result<BaselineVerdict> compare_with_baseline(const nlohmann::json& baseline, const std::vector<RowResult>& rows,
                                              const RunInfo& info, double tolerance_percent) {
  auto old_rows = rows_from_json(baseline);
  if (!old_rows) return old_rows.error();
  if (old_rows->empty() || rows.empty()) return make_error(twohopInvalidArgument, "there are no rows to compare");
  const nlohmann::json old_config = baseline.value("config", nlohmann::json::object());
  const nlohmann::json new_config = json_report(info, {}).at("config");
  const std::vector<Group> base = group_repeats(*old_rows), groups = group_repeats(rows);
  const std::vector<std::string> changed =
      changes(settings_of(old_config, old_rows->front().row), settings_of(new_config, rows.front().row));
  BaselineVerdict verdict;
  verdict.text = fmt::format("#\n# Against the baseline, by the medians of BW average; {}\n", what_changed(changed));
  for (const Group& now : groups) {
    const Group* old = partner_of(now, base);
    if (!old) {
      verdict.text +=
          fmt::format("#   not in the baseline, nor with one factor changed: {}\n", configuration(now.first->row));
      continue;
    }
    const auto differ = differing(old->first->row, now.first->row);
    const double ratio = now.median_mib_per_s / old->median_mib_per_s;
    const double noise = std::max({old->spread, now.spread, tolerance_percent / 100});
    const char* word = ratio > 1 + noise   ? "faster by more than"
                       : ratio < 1 - noise ? "SLOWER by more than"
                                           : "the same within";
    std::string what = differ.empty()
                           ? ""
                           : fmt::format("{} {} -> {}: ", differ.front()->name, differ.front()->value(old->first->row),
                                         differ.front()->value(now.first->row));
    if (!differ.empty() && !changed.empty()) what += "(beside the settings above) ";
    verdict.text +=
        fmt::format("#   {}{:.2f} -> {:.2f} MiB/s, x{:.2f}, {} {:.0f} %  [{}]\n", what, old->median_mib_per_s,
                    now.median_mib_per_s, ratio, word, noise * 100, configuration(now.first->row));
    // A row with another factor is another thing: only the same configuration can have become slower.
    if (!differ.empty()) continue;
    ++verdict.compared;
    verdict.slower += ratio < 1 - noise;
  }
  return verdict;
}

}  // namespace twohop::verbs_perf
