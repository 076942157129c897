// See row.hpp.
#include "row.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>

namespace twohop::verbs_perf {
namespace {

constexpr std::array<const char*, 5> kOpNames{"write", "write_imm", "read", "send", "atomic"};

struct Range {
  const char* flag;
  double value, least, most;
};

std::string mtu_text(const RowSpec& r) {
  return r.mtu == 0 ? "port" : std::to_string(r.mtu);
}
std::string gid_text(const RowSpec& r) {
  return r.gid < 0 ? "auto" : std::to_string(r.gid);
}

constexpr std::array<Factor, 9> kFactors{{
    {"op", "--op", [](const RowSpec& r) { return std::string(op_name(r.op)); }},
    {"bytes", "-s", [](const RowSpec& r) { return std::to_string(r.size); }},
    {"qps", "-q", [](const RowSpec& r) { return std::to_string(r.qps); }},
    {"rail", "-d", [](const RowSpec& r) { return r.rail; }},
    {"direction", "-b, --direction", [](const RowSpec& r) { return std::string(r.bidirectional ? "bi" : "uni"); }},
    {"batch", "-l", [](const RowSpec& r) { return std::to_string(r.batch); }},
    {"mtu", "-m", mtu_text},
    {"gid", "-x", gid_text},
    {"inline", "-I", [](const RowSpec& r) { return std::to_string(r.inline_bytes); }},
}};

/// Takes out what the operation does not look at.
RowSpec normalised(RowSpec r) {
  if (r.op == Op::kAtomic) r.size = kAtomicBytes;
  if (r.op == Op::kRead || r.op == Op::kAtomic || r.size > static_cast<uint64_t>(r.inline_bytes)) r.inline_bytes = 0;
  return r;
}

/// rows x values: each row once with each value.
template <class Values, class Set>
void multiply(std::vector<RowSpec>& rows, const Values& values, Set&& set) {
  std::vector<RowSpec> product;
  for (const RowSpec& row : rows)
    for (const auto& value : values) {
      product.push_back(row);
      set(product.back(), value);
    }
  rows = std::move(product);
}

}  // namespace

const char* op_name(Op op) {
  return kOpNames.at(static_cast<size_t>(op));
}

Result<> check(const RowSpec& r) {
  const auto op = static_cast<int>(r.op);
  for (const Range& range : {Range{"--op", static_cast<double>(op), 0, 4},
                             {"-s", static_cast<double>(r.size), 1, double{1 << 30}},
                             {"-q", static_cast<double>(r.qps), 1, 1024},
                             {"-l", static_cast<double>(r.batch), 1, 8192},
                             {"-x", static_cast<double>(r.gid), -1, 1023},
                             {"-I", static_cast<double>(r.inline_bytes), 0, 65536},
                             {"-n", static_cast<double>(r.iterations), 1, 1e12},
                             {"-D", r.duration_s, 0, 86400},
                             {"-t", static_cast<double>(r.tx_depth), 1, 8192},
                             {"-Q", static_cast<double>(r.cq_mod), 1, 8192},
                             {"-u", static_cast<double>(r.timeout), 1, 31},
                             {"--retry_count", static_cast<double>(r.retries), 0, 7},
                             {"-S", static_cast<double>(r.service_level), 0, 15},
                             {"--tclass", static_cast<double>(r.traffic_class), 0, 255},
                             {"--max-row-time", r.max_seconds, 0.01, 86400},
                             {"--patience", r.patience_s, 1, 3600}})
    if (!(range.value >= range.least && range.value <= range.most))
      return make_error(twohopInvalidArgument, "{} {}: accepted are {} to {}", range.flag, range.value, range.least,
                        range.most);
  if (r.mtu != 0 && r.mtu != 256 && r.mtu != 512 && r.mtu != 1024 && r.mtu != 2048 && r.mtu != 4096)
    return make_error(twohopInvalidArgument, "-m {}: accepted are 256, 512, 1024, 2048, 4096, or 0 for the port's",
                      r.mtu);
  if (r.batch > r.tx_depth)
    return make_error(twohopInvalidArgument,
                      "-l {}: a list of so many requests does not fit into a send queue of -t {}: raise -t", r.batch,
                      r.tx_depth);
  return {};
}

nlohmann::json to_json(const RowSpec& r) {
  return {{"op", op_name(r.op)},
          {"bytes", r.size},
          {"qps", r.qps},
          {"rail", r.rail},
          {"direction", r.bidirectional ? "bi" : "uni"},
          {"batch", r.batch},
          {"mtu", r.mtu},
          {"gid", r.gid},
          {"inline", r.inline_bytes},
          {"repeat", r.repeat},
          {"iterations", r.iterations},
          {"duration_s", r.duration_s},
          {"tx_depth", r.tx_depth},
          {"cq_mod", r.cq_mod},
          {"qp_timeout", r.timeout},
          {"retry_count", r.retries},
          {"sl", r.service_level},
          {"tclass", r.traffic_class},
          {"max_seconds", r.max_seconds},
          {"max_bytes", r.max_bytes},
          {"patience_s", r.patience_s},
          {"seed", r.seed}};
}

Result<RowSpec> row_from_json(const nlohmann::json& j) {
  RowSpec r;
  try {
    const std::string op = j.at("op"), direction = j.at("direction");
    const auto known = std::find(kOpNames.begin(), kOpNames.end(), op);
    if (known == kOpNames.end() || (direction != "uni" && direction != "bi"))
      return make_error(twohopInvalidArgument, "operation {} {} is not known here", direction, op);
    r.op = static_cast<Op>(known - kOpNames.begin());
    r.bidirectional = direction == "bi";
    j.at("bytes").get_to(r.size);
    j.at("qps").get_to(r.qps);
    j.at("rail").get_to(r.rail);
    j.at("batch").get_to(r.batch);
    j.at("mtu").get_to(r.mtu);
    j.at("gid").get_to(r.gid);
    j.at("inline").get_to(r.inline_bytes);
    j.at("repeat").get_to(r.repeat);
    j.at("iterations").get_to(r.iterations);
    j.at("duration_s").get_to(r.duration_s);
    j.at("tx_depth").get_to(r.tx_depth);
    j.at("cq_mod").get_to(r.cq_mod);
    j.at("qp_timeout").get_to(r.timeout);
    j.at("retry_count").get_to(r.retries);
    j.at("sl").get_to(r.service_level);
    j.at("tclass").get_to(r.traffic_class);
    j.at("max_seconds").get_to(r.max_seconds);
    j.at("max_bytes").get_to(r.max_bytes);
    j.at("patience_s").get_to(r.patience_s);
    j.at("seed").get_to(r.seed);
  } catch (const nlohmann::json::exception& e) {
    return make_error(twohopInvalidArgument, "not a row of verbs_perf: {}", e.what());
  }
  r = normalised(r);
  if (auto good = check(r); !good) return good.error();
  return r;
}

std::span<const Factor> factors() {
  return kFactors;
}

std::string configuration(const RowSpec& row) {
  std::string text;
  for (const Factor& f : kFactors) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", f.name, f.value(row));
  return text;
}

std::vector<RowSpec> expand(const Matrix& m, const RowSpec& common) {
  std::vector<RowSpec> rows{common};
  multiply(rows, m.ops, [](RowSpec& r, Op v) { r.op = v; });
  multiply(rows, m.rails, [](RowSpec& r, const std::string& v) { r.rail = v; });
  multiply(rows, m.gids, [](RowSpec& r, int v) { r.gid = v; });
  multiply(rows, m.mtus, [](RowSpec& r, int v) { r.mtu = v; });
  multiply(rows, m.directions, [](RowSpec& r, bool v) { r.bidirectional = v; });
  multiply(rows, m.inlines, [](RowSpec& r, int v) { r.inline_bytes = v; });
  multiply(rows, m.batches, [](RowSpec& r, int v) { r.batch = v; });
  multiply(rows, m.qps, [](RowSpec& r, int v) { r.qps = v; });
  multiply(rows, m.sizes, [](RowSpec& r, uint64_t v) { r.size = v; });
  std::vector<RowSpec> once;
  std::set<std::string> seen;
  for (const RowSpec& row : rows) {
    const RowSpec r = normalised(row);
    if (seen.insert(configuration(r)).second) once.push_back(r);
  }
  std::vector<RowSpec> all;
  for (int repeat = 0; repeat < m.repeats; ++repeat)
    for (RowSpec row : once) {
      row.repeat = repeat;
      row.seed = common.seed + all.size() + 1;  // no row finds its data in what another has left
      all.push_back(row);
    }
  return all;
}

}  // namespace twohop::verbs_perf
