// The tuner's table as JSON text, both ways.
#include <nlohmann/json.hpp>

#include "base/bounded_json.hpp"
#include "collectives/plan/model/tuner.hpp"

namespace twohop {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMostRows = 4096;

template <class... Args>
Error refuse(size_t row, fmt::format_string<Args...> f, Args&&... args) {
  return make_error(twohopInvalidArgument, "tuner table, row {}: {}", row, fmt::format(f, std::forward<Args>(args)...));
}

Result<uint64_t> number(const Json& row, size_t index, const char* name, uint64_t min, uint64_t max) {
  if (!row.contains(name)) return refuse(index, "\"{}\" is missing", name);
  const Json& value = row[name];
  if (!value.is_number_unsigned() || value.get<uint64_t>() < min || value.get<uint64_t>() > max)
    return refuse(index, "\"{}\" is {}; accepted is a whole number from {} to {}", name, value.dump(), min, max);
  return value.get<uint64_t>();
}

Result<std::string> text(const Json& row, size_t index, const char* name) {
  if (!row.contains(name) || !row[name].is_string()) return refuse(index, "\"{}\" is missing or not text", name);
  return row[name].get<std::string>();
}

Result<TunerRow> parse_row(const Json& json, size_t index) {
  if (!json.is_object()) return refuse(index, "not an object");
  TunerRow row;
  auto collective = text(json, index, "collective"), algorithm = text(json, index, "algorithm");
  if (!collective) return collective.error();
  if (!algorithm) return algorithm.error();
  bool known = false;
  for (Collective c : kCollectives)
    if (*collective == collective_name(c)) row.collective = c, known = true;
  if (!known) return refuse(index, "collective \"{}\" is not known", *collective);
  row.choice.algorithm = find_algorithm(*algorithm);
  if (!row.choice.algorithm) return refuse(index, "algorithm \"{}\" is not known to this version", *algorithm);
  if (json.contains("max_bytes")) {
    auto max_bytes = number(json, index, "max_bytes", 0, UINT64_MAX);
    if (!max_bytes) return max_bytes.error();
    row.max_bytes = *max_bytes;
  }
  auto chunk = number(json, index, "chunk_bytes", kChunkAlign, 64 << 20);
  auto channels = number(json, index, "channels", 1, 16);
  auto batch = number(json, index, "batch", 1, 512);
  for (const auto* r : {&chunk, &channels, &batch})
    if (!*r) return r->error();
  row.choice.chunk_bytes = *chunk;
  row.choice.channels = static_cast<int>(*channels);
  row.choice.batch = static_cast<uint32_t>(*batch);
  return row;
}

Result<> check_order(const TunerTable& table) {
  for (size_t i = 0; i < table.rows.size(); ++i) {
    const TunerRow& row = table.rows[i];
    const bool last = i + 1 == table.rows.size() || table.rows[i + 1].collective != row.collective;
    if (last && row.max_bytes != UINT64_MAX)
      return refuse(i, "the last row of {} ends at {} bytes; leave its \"max_bytes\" out",
                    collective_name(row.collective), row.max_bytes);
    if (!last && table.rows[i + 1].max_bytes <= row.max_bytes)
      return refuse(i + 1, "\"max_bytes\" must be larger than that of the row before, {}", row.max_bytes);
    for (size_t j = i + 2; last && j < table.rows.size(); ++j)
      if (table.rows[j].collective == row.collective)
        return refuse(j, "the rows of {} must stand together", collective_name(row.collective));
  }
  return {};
}

}  // namespace

Result<TunerTable> parse_tuner_table(std::string_view input) {
  const Json json = parse_bounded_json<Json>(input);
  if (!json.is_object() || !json.contains("rows") || !json["rows"].is_array() || json["rows"].size() > kMostRows)
    return make_error(twohopInvalidArgument,
                      "tuner table: not a JSON object with a list \"rows\"; allreduce_perf --tune writes one");
  TunerTable table;
  for (const Json& item : json["rows"]) {
    auto row = parse_row(item, table.rows.size());
    if (!row) return row.error();
    table.rows.push_back(*row);
  }
  if (auto ordered = check_order(table); !ordered) return ordered.error();
  return table;
}

std::string format_tuner_table(const TunerTable& table) {
  Json rows = Json::array();
  for (const TunerRow& row : table.rows) {
    Json json{{"collective", collective_name(row.collective)}};
    if (row.max_bytes != UINT64_MAX) json["max_bytes"] = row.max_bytes;
    json["algorithm"] = std::string(row.choice.algorithm->name);
    json["chunk_bytes"] = row.choice.chunk_bytes;
    json["channels"] = row.choice.channels;
    json["batch"] = row.choice.batch;
    rows.push_back(std::move(json));
  }
  std::string text = "{\"rows\": [";
  for (size_t i = 0; i < rows.size(); ++i) text += (i > 0 ? ",\n  " : "\n  ") + rows[i].dump();
  return text + "\n]}\n";
}

}  // namespace twohop
