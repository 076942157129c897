// See result.hpp.
#include "result.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace twohop::verbs_perf {
namespace {

using nlohmann::json;
constexpr double kMib = 1 << 20;

double over(double amount, double seconds) {
  return seconds > 0 ? amount / seconds : 0;
}

/// Calls f(name, member) for every plain member, so that both directions know the same.
template <class R, class F>
void for_members(R& r, F&& f) {
  f("messages", r.messages);
  f("bytes", r.bytes);
  f("doorbells", r.doorbells);
  f("work_requests", r.work_requests);
  f("signalled_completions", r.signalled_completions);
  f("setup_ms", r.setup_ms);
  f("register_ms", r.register_ms);
  f("first_us", r.first_us);
  f("post_us", r.post_us);
  f("local_s", r.local_s);
  f("global_s", r.global_s);
  f("peak_mib_per_s", r.peak_mib_per_s);
  f("stopped_by", r.stopped_by);
  f("verified_bytes", r.verified_bytes);
  f("wrong_bytes", r.wrong_bytes);
  f("counters", r.counters);
  f("guids", r.guids);
}

template <class S, class F>
void for_stats(S& s, F&& f) {
  f("mean", s.mean);
  f("min", s.min);
  f("p50", s.p50);
  f("p99", s.p99);
  f("max", s.max);
}

}  // namespace

TimeStats summarize(std::vector<double>& values) {
  TimeStats s;
  if (values.empty()) return s;
  std::sort(values.begin(), values.end());
  auto fraction = [&](double p) {
    const auto rank = static_cast<size_t>(std::ceil(p * static_cast<double>(values.size())));
    return values[std::max<size_t>(rank, 1) - 1];
  };
  for (double v : values) s.mean += v / static_cast<double>(values.size());
  s.min = values.front();
  s.p50 = fraction(0.5);
  s.p99 = fraction(0.99);
  s.max = values.back();
  return s;
}

Moved moved_counters(const verbs::HwCounters& before, const verbs::HwCounters& after, const std::string& folder) {
  Moved moved;
  for (const auto& [name, value] : after) {
    const auto it = before.find(name);
    const uint64_t old = it == before.end() ? 0 : it->second;
    if (value > old) moved[folder + "/" + name] = value - old;
  }
  return moved;
}

json to_json(const EndResult& r) {
  json j, times;
  for_members(r, [&](const char* name, const auto& member) { j[name] = member; });
  for_stats(r.completion_us, [&](const char* name, double value) { times[name] = value; });
  j["completion_us"] = times;
  j["retries"] = r.retries ? json(*r.retries) : json(nullptr);
  return j;
}

Result<EndResult> end_result_from_json(const json& j) {
  EndResult r;
  try {
    for_members(r, [&](const char* name, auto& member) { j.at(name).get_to(member); });
    for_stats(r.completion_us, [&](const char* name, double& value) { j.at("completion_us").at(name).get_to(value); });
    if (!j.at("retries").is_null()) r.retries = j.at("retries").get<uint64_t>();
  } catch (const json::exception& e) {
    return make_error(twohopInvalidArgument, "not a result of verbs_perf: {}", e.what());
  }
  return r;
}

double RowResult::average_mib_per_s() const {
  return over(static_cast<double>(client.bytes) / kMib, client.local_s) +
         over(static_cast<double>(server.bytes) / kMib, server.local_s);
}

double RowResult::global_mib_per_s() const {
  return over(static_cast<double>(bytes()) / kMib, client.global_s);
}

double RowResult::mpps() const {
  return over(static_cast<double>(client.messages) * 1e-6, client.local_s) +
         over(static_cast<double>(server.messages) * 1e-6, server.local_s);
}

std::optional<uint64_t> RowResult::retries() const {
  if (!client.retries || !server.retries) return std::nullopt;
  for (const auto& [name, guid] : client.guids)
    for (const auto& [other, other_guid] : server.guids)
      if (guid == other_guid) return std::max(*client.retries, *server.retries);
  return *client.retries + *server.retries;
}

json to_json(const RowResult& r) {
  json j = to_json(r.row);
  j["mtu_bytes"] = r.mtu;
  j["from"] = r.from;
  j["to"] = r.to;
  j["bw_average_mib_per_s"] = r.average_mib_per_s();
  j["bw_peak_mib_per_s"] = r.peak_mib_per_s();
  j["bw_global_mib_per_s"] = r.global_mib_per_s();
  j["msg_rate_mpps"] = r.mpps();
  j["retries"] = r.retries() ? json(*r.retries()) : json(nullptr);
  j["wrong_bytes"] = r.wrong_bytes();
  j["client"] = to_json(r.client);
  j["server"] = to_json(r.server);
  return j;
}

Result<RowResult> row_result_from_json(const json& j) {
  RowResult r;
  auto row = row_from_json(j);
  if (!row) return row.error();
  r.row = *row;
  try {
    j.at("mtu_bytes").get_to(r.mtu);
    j.at("from").get_to(r.from);
    j.at("to").get_to(r.to);
    auto client = end_result_from_json(j.at("client")), server = end_result_from_json(j.at("server"));
    if (!client) return client.error();
    if (!server) return server.error();
    r.client = std::move(*client);
    r.server = std::move(*server);
  } catch (const json::exception& e) {
    return make_error(twohopInvalidArgument, "not a result of verbs_perf: {}", e.what());
  }
  return r;
}

}  // namespace twohop::verbs_perf
