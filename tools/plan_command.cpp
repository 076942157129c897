// `twohop plan`: what would a call cost on some cluster, which algorithm would be chosen, and why?
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include <algorithm>

#include "command.hpp"
#include "plan_proof.hpp"
#include "plan_report.hpp"
#include "timeline_svg.hpp"

namespace twohop::cli {
namespace {

struct Options {
  PlanOptions plan;
  std::string svg;
  bool explain = false, check = false, json = false, as_given = false;
};

int check_all(const PlanReport& r) {
  int code = kOk;
  for (const Candidate& c : r.candidates) {
    const ShapeProof proof = prove_shape(*r.cluster, *c.choice.algorithm, r.setup->collective);
    code = std::max(code, proof.proved ? print(proof.text) : fail(proof.text));
  }
  return code;
}

int draw(const Options& o, Predictor& predictor, const PlanReport& r) {
  Predictor::Effort effort{200'000, true};
  const Candidate& best = r.candidates.front();
  const Prediction p = predictor.predict(best.choice, r.setup->collective, r.bytes, effort);
  const auto written = write_text(o.svg, timeline_svg(predictor.program(*best.choice.algorithm, r.setup->collective), p,
                                                      std::string(best.choice.algorithm->name)));
  return written ? kOk : fail(fmt::format("--draw {}", written.error().message));
}

int plan(const Options& o) {
  auto setup = check_plan_options(o.plan);
  const auto bytes = parse_bytes(o.plan.bytes);
  if (!setup) return fail(setup.error().message), kUsage;
  if (!bytes) return fail(fmt::format("--bytes {}: accepted is a size, as 64K, 1M, 64MB", o.plan.bytes)), kUsage;
  PlanReport report;
  report.setup = &*setup;
  report.cluster = setup->cluster(o.plan.nodes, o.plan.ranks_per_node);
  report.bytes = *bytes;
  Predictor predictor(report.cluster, setup->model, memory_limits(*report.cluster, setup->memory));
  report.candidates = candidates(predictor, setup->space, setup->collective, *bytes, {}, !o.as_given);
  setup->space.steps = 30'000'000;
  if (!o.json) report.table = tune(predictor, setup->space, {setup->collective});
  int code = print(o.json ? plan_json(report) : plan_text(report, o.explain));
  if (code == kOk && o.check) code = check_all(report);
  if (code == kOk && !o.svg.empty()) code = draw(o, predictor, report);
  return code;
}

}  // namespace

std::function<int()> add_plan(CLI::App& app) {
  static Options o;
  app.add_option("--nodes", o.plan.nodes, "Nodes")->capture_default_str();
  app.add_option("--ranks-per-node", o.plan.ranks_per_node, "Ranks on each node")->capture_default_str();
  app.add_option("--bytes", o.plan.bytes, "Bytes of each rank's buffer: 64K, 1M (powers of 1024), 64MB (of 1000)")
      ->capture_default_str();
  add_plan_options(app, o.plan);
  app.add_flag("--explain", o.explain, "Every term of every candidate's cost");
  app.add_flag("--check", o.check, "Prove the candidates on this cluster");
  app.add_option("--draw", o.svg, "Write the choice's timeline into this SVG file");
  app.add_flag("--json", o.json, "The candidates as JSON");
  app.add_flag("--as-given", o.as_given, "Only the chunk and channels that are given, no smaller ones");
  return [] { return plan(o); };
}

}  // namespace twohop::cli
