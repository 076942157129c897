// Rows to JSON.
#include "json_report.hpp"

#include <nlohmann/json.hpp>

#include "twohop/twohop.h"

namespace twohop::perf {
namespace {

using nlohmann::json;

json result(const Row& row, const Measurement& m, bool in_place, int nranks) {
  auto bytes = static_cast<double>(row.bytes);
  json r{{"scheme", row.scheme},
         {"bytes", row.bytes},
         {"count", row.count},
         {"type", row.type},
         {"redop", row.op},
         {"in_place", in_place},
         {"time_us", {{"min", m.time.min}, {"median", m.time.median}, {"p99", m.time.p99}, {"mean", m.time_us}}},
         {"algbw", algbw(bytes, m.time_us)},
         {"busbw", busbw(bytes, m.time_us, nranks)},
         {"nwrong", m.nwrong ? json(*m.nwrong) : json(nullptr)},
         {"internode_bytes", m.internode_bytes},
         {"puts", m.network.puts},
         {"doorbells", m.network.doorbells},
         {"work_requests", m.network.work_requests},
         {"signalled_completions", m.network.signalled_completions},
         {"rail_bytes", m.network.rail_bytes},
         {"retries", m.network.retries ? json(*m.network.retries) : json(nullptr)},
         {"reissued_puts", m.network.reissued_puts ? json(*m.network.reissued_puts) : json(nullptr)}};
  if (row.bucket >= 0) r["bucket"] = row.bucket;
  if (row.whole_step) r["bucket"] = "step";
  return r;
}

json configuration(const PerfOptions& o, ClusterShape shape, const std::string& launcher) {
  int version = 0;
  (void)twohopGetVersion(&version);
  return {{"version", version},
          {"nranks", shape.nranks},
          {"nnodes", shape.nnodes},
          {"launcher", launcher},
          {"ranks_per_node", o.ranks_per_node},
          {"schemes", o.schemes},
          {"minimum_bytes", o.min_bytes},
          {"maximum_bytes", o.max_bytes},
          {"step_bytes", o.step_bytes},
          {"step_factor", o.step_factor},
          {"iterations", o.iters},
          {"warmup_iters", o.warmup},
          {"validation", o.checks},
          {"cycles", o.cycles},
          {"local_register", o.registered ? 1 : 0},
          {"average", static_cast<int>(o.average)},
          {"buckets", o.buckets_file}};
}

}  // namespace

std::string json_report(const PerfOptions& options, ClusterShape shape, const std::string& launcher,
                        const std::vector<Row>& rows) {
  json results = json::array();
  for (const Row& row : rows) {
    results.push_back(result(row, row.out_of_place, false, shape.nranks));
    results.push_back(result(row, row.in_place, true, shape.nranks));
  }
  return json{{"config", configuration(options, shape, launcher)}, {"results", results}}.dump(1) + "\n";
}

}  // namespace twohop::perf
