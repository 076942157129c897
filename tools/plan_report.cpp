// See plan_report.hpp.
#include "plan_report.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace twohop::cli {
namespace {

const RankUse& busiest(const SimulatedRun& run) {
  return *std::max_element(run.ranks.begin(), run.ranks.end(),
                           [](const RankUse& a, const RankUse& b) { return a.total_busy_us() < b.total_busy_us(); });
}

/// The terms of a candidate's cost, in us for the whole call: what the busiest rank's core does, and the busiest rail.
struct Terms {
  std::array<double, kActivities> core{};
  double core_waits = 0, wire = 0, wire_waits = 0;
  explicit Terms(const Prediction& p) {
    const RankUse& rank = busiest(p.run);
    double busy = 0;
    for (size_t i = 0; i < core.size(); ++i) busy += core[i] = rank.busy_us[i] * p.scale;
    core_waits = std::max(0.0, p.time_us - busy);
    wire = p.run.wire_busy_us * p.scale;
    wire_waits = std::max(0.0, p.time_us - wire);
  }
};

std::string candidate_line(const Candidate& c, double fastest, bool explain) {
  const Prediction& p = c.prediction;
  std::string line =
      fmt::format("{:<16} {:>10}  x {:<5.2f} {:>9} {:>3} {:>7}", c.choice.algorithm->name, format_time(p.time_us),
                  p.time_us / fastest, format_bytes(p.chunk_bytes), p.channels, p.rounds);
  if (!explain) return line + "\n";
  const Terms t(p);
  for (double us : t.core) line += fmt::format(" {:>9.1f}", us);
  return line + fmt::format(" {:>9.1f} | {:>9.1f} {:>9.1f}\n", t.core_waits, t.wire, t.wire_waits);
}

std::string candidates_text(const PlanReport& r, bool explain) {
  std::string text =
      fmt::format("{:<16} {:>10}  {:<7} {:>9} {:>3} {:>7}", "candidate", "time", "of best", "chunk", "ch", "rounds");
  if (explain) {
    for (int i = 0; i < kActivities; ++i) text += fmt::format(" {:>9}", activity_name(static_cast<Activity>(i)));
    text += fmt::format(" {:>9} | {:>9} {:>9}", "waits", "wire", "waits");
  }
  text += "\n";
  for (const Candidate& c : r.candidates) text += candidate_line(c, r.candidates.front().prediction.time_us, explain);
  if (explain)
    text +=
        "\nIn us. Up to the bar the core of the busiest rank: reduce reads inputs, fold adds what other nodes sent, "
        "spread\n"
        "writes outputs, forward copies between windows, post and notice and sweep are the network's work, switch is\n"
        "waiting for a shared core. After it the busiest rail. The larger of both sums is what the call cannot be "
        "faster "
        "than.\n";
  return text;
}

std::string choice_text(const PlanReport& r) {
  const Candidate& best = r.candidates.front();
  std::string text = fmt::format("choice: {}", best.choice.algorithm->name);
  if (r.candidates.size() > 1) {
    const Candidate& second = r.candidates[1];
    text += fmt::format("; runner-up: {}, {:.1f} % slower", second.choice.algorithm->name,
                        100 * (second.prediction.time_us / best.prediction.time_us - 1));
  }
  return text + "\n";
}

std::string table_text(const TunerTable& table) {
  std::string text = "by size:\n";
  uint64_t from = 0;
  for (const TunerRow& row : table.rows) {
    const bool last = row.max_bytes == UINT64_MAX;
    text +=
        fmt::format("  {:>10} to {:<10} {:<16} chunks of {}, {} channels\n", format_bytes(static_cast<double>(from)),
                    last ? "any" : format_bytes(static_cast<double>(row.max_bytes)), row.choice.algorithm->name,
                    format_bytes(static_cast<double>(row.choice.chunk_bytes)), row.choice.channels);
    from = last ? 0 : row.max_bytes + 1;
  }
  return text;
}

}  // namespace

std::string ledger_text(const Cluster& cluster, Collective collective, uint64_t bytes) {
  std::vector<std::pair<std::string, double>> rows;
  for (const Algorithm& a : algorithms())
    if (a.supports(cluster, collective))
      rows.emplace_back(a.name, busiest_bytes_out_per_byte(a, {&cluster, collective, 0, {}}));
  if (collective == Collective::kAllReduce && cluster.nnodes() > 1) {
    const double n = cluster.nnodes();
    rows.emplace_back("a ring per rank, nothing summed first", cluster.max_local_size() * 2 * (n - 1) / n);
  }
  std::stable_sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  std::string text = "bytes out of the busiest node:\n";
  for (const auto& [name, factor] : rows)
    text +=
        fmt::format("  {:<38} {:>10}  {:.4g} x S\n", name, format_bytes(factor * static_cast<double>(bytes)), factor);
  return text;
}

std::string plan_text(const PlanReport& r, bool explain) {
  std::string text = fmt::format("{} of {} on {} nodes, {} ranks; model \"{}\", {} rails a node\n\n",
                                 collective_name(r.setup->collective), format_bytes(static_cast<double>(r.bytes)),
                                 r.cluster->nnodes(), r.cluster->nranks(), r.setup->model.name, r.setup->model.rails);
  text += candidates_text(r, explain) + "\n" + choice_text(r);
  if (!r.table.rows.empty()) text += "\n" + table_text(r.table);
  return text + "\n" + ledger_text(*r.cluster, r.setup->collective, r.bytes);
}

std::string plan_json(const PlanReport& r) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Candidate& c : r.candidates) {
    const Terms t(c.prediction);
    nlohmann::ordered_json core;
    for (int i = 0; i < kActivities; ++i)
      core[activity_name(static_cast<Activity>(i))] = t.core[static_cast<size_t>(i)];
    list.push_back({{"algorithm", std::string(c.choice.algorithm->name)},
                    {"time_us", c.prediction.time_us},
                    {"chunk_bytes", c.prediction.chunk_bytes},
                    {"channels", c.prediction.channels},
                    {"rounds", c.prediction.rounds},
                    {"core_us", core},
                    {"wire_us", t.wire}});
  }
  const nlohmann::ordered_json json{{"nodes", r.cluster->nnodes()},
                                    {"ranks", r.cluster->nranks()},
                                    {"bytes", r.bytes},
                                    {"model", r.setup->model.name},
                                    {"candidates", list}};
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace twohop::cli
