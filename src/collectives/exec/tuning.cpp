// See tuning.hpp.
#include "collectives/exec/tuning.hpp"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <memory>
#include <sstream>

#include "base/log.hpp"

namespace twohop {
namespace {

/// Beyond so many ranks only all-reduce has rows: the time that the table takes grows with the ranks.
constexpr int kMostRanksForAll = 128;
/// Beyond so many, so many of the nodes stand for all.
constexpr int kMostRanks = 512;
constexpr std::string_view kBuiltInModel = "built-in", kNoModel = "none";
constexpr double kPayloadShare = 0.96;                       // of a rail's rate
constexpr double kSlowestRail = 0.001, kFastestRail = 1000;  // GB/s: what is outside is no rate of a rail
constexpr uint64_t kStepsForAllReduce = 300'000, kStepsForOthers = 60'000;  // walked: a few milliseconds

Result<std::string> read_file(const char* variable, const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  if (!file) return make_error(twohopInvalidArgument, "{}={}: cannot be read", variable, path);
  return text.str();
}

Error in_file(const char* variable, const std::string& path, Error error) {
  error.message = fmt::format("{}={}: {}", variable, path, error.message);
  return error;
}

Result<NetworkModel> model_for(const Options& options, const TuningPlace& place) {
  if (!options.model_file.empty() && options.model_file != kBuiltInModel) {
    auto text = read_file("TWOHOP_MODEL_FILE", options.model_file);
    if (!text) return text.error();
    auto model = parse_model(*text);
    if (!model) return in_file("TWOHOP_MODEL_FILE", options.model_file, model.error());
    return model;
  }
  const bool loopback = place.net == "tcp" && place.machines == 1;
  const NetworkModel* known = find_builtin_model(loopback ? "loopback" : place.net);
  NetworkModel model = known ? *known : NetworkModel();
  model.rails = std::clamp<int64_t>(place.rails, 1, 64);
  if (place.rail_gbit_per_s > 0)
    model.rail_gbytes_per_s = std::clamp(kPayloadShare * place.rail_gbit_per_s / 8, kSlowestRail, kFastestRail);
  model.cores = std::max<int64_t>(1, place.cores);
  // All on one machine: 0 means that.
  model.nodes_per_machine = place.machines > 1 ? (place.cluster->nnodes() + place.machines - 1) / place.machines : 0;
  if (place.cluster->nnodes() == 1) model.nodes_per_machine = 1;
  return model;
}

Cluster first_nodes(const Cluster& all) {
  std::vector<int> node;
  for (int n = 0; n < all.nnodes() && (n < 2 || static_cast<int>(node.size()) + all.local_size(n) <= kMostRanks); ++n)
    node.insert(node.end(), static_cast<size_t>(all.local_size(n)), n);
  return static_cast<int>(node.size()) == all.nranks() ? all : make_cluster(node);
}

Result<std::string> given_table(const Options& options) {
  auto text = read_file("TWOHOP_TUNER_FILE", options.tuner_file);
  if (!text) return text.error();
  if (auto table = parse_tuner_table(*text); !table)
    return in_file("TWOHOP_TUNER_FILE", options.tuner_file, table.error());
  log_info("tuner: table of {}", options.tuner_file);
  return text;
}

}  // namespace

Result<std::string> make_tuning(const Selection& selection, const Options& options, const TuningPlace& place) {
  bool choice = false;
  for (Collective c : kCollectives) choice |= selection.allowed(*place.cluster, c).size() > 1;
  if (!choice) return std::string();
  if (!options.tuner_file.empty()) return given_table(options);
  if (options.model_file == kNoModel) return std::string();
  const auto begin = std::chrono::steady_clock::now();
  auto model = model_for(options, place);
  if (!model) return model.error();
  TunerSpace space;
  space.max_chunk_bytes = place.limits.chunk_bytes;
  space.max_channels = place.limits.max_channels;
  space.batch = static_cast<uint32_t>(options.doorbell_batch);

  Predictor predictor(std::make_shared<Cluster>(first_nodes(*place.cluster)), *model, place.limits);
  TunerTable table;
  for (Collective c : kCollectives) {
    if (c != Collective::kAllReduce && place.cluster->nranks() > kMostRanksForAll) continue;
    space.algorithms = selection.worth_comparing(*place.cluster, c);
    if (space.algorithms.empty()) continue;
    space.steps = c == Collective::kAllReduce ? kStepsForAllReduce : kStepsForOthers;
    const TunerTable part = tune(predictor, space, {c});
    table.rows.insert(table.rows.end(), part.rows.begin(), part.rows.end());
  }
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
  log_info(
      "tuner: {} rows for {} ranks on {} nodes by model \"{}\", {:.1f} Gbit/s a rail, in {:.1f} ms, {} steps walked",
      table.rows.size(), place.cluster->nranks(), place.cluster->nnodes(), model->name, model->rail_gbytes_per_s * 8,
      took.count(), predictor.steps_walked());
  std::string text = format_tuner_table(table);
  log_debug("tuner: {}", text);
  return text;
}

Result<Tuning> Tuning::create(const Selection& selection, const std::string& text, const Cluster& cluster,
                              const LayoutLimits& limits, uint32_t batch) {
  Tuning t;
  t.selection_ = selection;
  t.largest_ = {nullptr, limits.chunk_bytes, limits.max_channels, batch};
  t.little_bytes_ = Selection::little_bytes(cluster);
  for (Collective c : kCollectives)
    t.selected_[static_cast<size_t>(c)] = {&selection.choose(cluster, c, 0), &selection.choose(cluster, c, UINT64_MAX)};
  if (text.empty()) return t;
  auto table = parse_tuner_table(text);
  if (!table) return table.error();
  t.table_ = std::move(*table);
  for (const TunerRow& row : t.table_.rows) {
    t.row_allowed_.push_back(selection.allows(*row.choice.algorithm, cluster, row.collective));
    if (!t.row_allowed_.back())
      log_warn("tuner table: {} for {} cannot be used here, or TWOHOP_ALGO rules it out: {} does it",
               row.choice.algorithm->name, collective_name(row.collective),
               selection.choose(cluster, row.collective, row.max_bytes).name);
  }
  return t;
}

Choice Tuning::choose(Collective collective, uint64_t buffer_bytes) const {
  const TunerRow* row = table_.find_row(collective, buffer_bytes);
  if (row && row_allowed_[static_cast<size_t>(row - table_.rows.data())]) return row->choice;
  Choice choice = largest_;
  const Selected& selected = selected_[static_cast<size_t>(collective)];
  choice.algorithm = buffer_bytes <= little_bytes_ ? selected.little : selected.large;
  return choice;
}

std::vector<const Algorithm*> Tuning::reachable(const Cluster& cluster) const {
  std::vector<const Algorithm*> found;
  const auto by_selection = selection_.reachable(cluster);
  for (const Algorithm& a : algorithms()) {
    const bool in_table = std::any_of(table_.rows.begin(), table_.rows.end(),
                                      [&](const TunerRow& row) { return row.choice.algorithm == &a; });
    if (in_table || std::find(by_selection.begin(), by_selection.end(), &a) != by_selection.end()) found.push_back(&a);
  }
  return found;
}

}  // namespace twohop
