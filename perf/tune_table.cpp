// See tune_table.hpp.
#include "tune_table.hpp"

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

namespace twohop::perf {
namespace {

/// The communicator's own settings bound them: a row speaks of the scheme only.
constexpr int kMostChunkBytes = 64 << 20, kMostChannels = 16, kMostBatch = 512;

struct Winner {
  std::string scheme;
  double time_us = 0;
};

/// Over types, operations and placements the times of a scheme are added up.
std::map<size_t, Winner> winners(const std::vector<Row>& rows) {
  std::map<size_t, std::map<std::string, double>> times;
  for (const Row& row : rows)
    if (row.scheme != "auto" && row.bucket < 0 && !row.whole_step)
      times[row.bytes][row.scheme] += row.out_of_place.time_us + row.in_place.time_us;
  std::map<size_t, Winner> best;
  for (const auto& [bytes, schemes] : times)
    for (const auto& [scheme, time] : schemes)
      if (best[bytes].scheme.empty() || time < best[bytes].time_us) best[bytes] = {scheme, time};
  return best;
}

}  // namespace

std::string tune_table(const std::vector<Row>& rows) {
  const auto best = winners(rows);
  if (best.empty()) return "";
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (auto it = best.begin(); it != best.end(); ++it) {
    const auto next = std::next(it);
    if (next != best.end() && next->second.scheme == it->second.scheme) continue;
    nlohmann::ordered_json row{{"collective", "AllReduce"}};
    if (next != best.end())
      row["max_bytes"] =
          static_cast<uint64_t>(std::sqrt(static_cast<double>(it->first) * static_cast<double>(next->first)));
    row["algorithm"] = it->second.scheme;
    row["chunk_bytes"] = kMostChunkBytes;
    row["channels"] = kMostChannels;
    row["batch"] = kMostBatch;
    list.push_back(std::move(row));
  }
  return nlohmann::ordered_json{{"rows", list}}.dump(2) + "\n";
}

}  // namespace twohop::perf
