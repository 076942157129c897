// What did one end see of a row, and both together?
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "row.hpp"
#include "transport/verbs/verbs_hw_counters.hpp"

namespace twohop::verbs_perf {

struct TimeStats {
  double mean = 0, min = 0, p50 = 0, p99 = 0, max = 0;
};
/// The p-th fraction is the smallest value that at least so many do not exceed. Sorts its input.
TimeStats summarize(std::vector<double>& values);

/// What moved in the counters of a port, by folder: "counters/port_xmit_data". A counter that went back was reset and
/// is left out.
using Moved = std::map<std::string, uint64_t>;
Moved moved_counters(const verbs::HwCounters& before, const verbs::HwCounters& after, const std::string& folder);

struct EndResult {
  uint64_t messages = 0, bytes = 0;  // that this end has asked for: sent, or fetched by READs and atomics
  uint64_t doorbells = 0, work_requests = 0, signalled_completions = 0;
  double setup_ms = 0, register_ms = 0;  // control path
  double first_us = 0;                   // until the first completion, from its doorbell
  double post_us = 0;                    // inside ibv_post_send, per message
  TimeStats completion_us;               // from the doorbell of a signalled request to its completion
  double local_s = 0;                    // first doorbell to last completion; 0: sent nothing
  double global_s = 0;                   // barrier to barrier
  double peak_mib_per_s = 0;             // the best tenth of the time
  std::string stopped_by;                // "iterations", "duration", "time", "bytes"; empty: sent nothing
  uint64_t verified_bytes = 0, wrong_bytes = 0;
  std::optional<uint64_t> retries;           // of the row's ports; empty: a device does not count them
  std::map<std::string, Moved> counters;     // by port
  std::map<std::string, std::string> guids;  // by port: which device it is
};
nlohmann::json to_json(const EndResult& r);
Result<EndResult> end_result_from_json(const nlohmann::json& j);

struct RowResult {
  RowSpec row;
  int mtu = 0;           // bytes, as negotiated on the first rail
  std::string from, to;  // the ports, in words
  EndResult client, server;

  uint64_t messages() const { return client.messages + server.messages; }
  uint64_t bytes() const { return client.bytes + server.bytes; }
  /// MiB/s, as perftest counts: of every sending end over its own time, added up.
  double average_mib_per_s() const;
  double peak_mib_per_s() const { return client.peak_mib_per_s + server.peak_mib_per_s; }
  /// All bytes over the time from barrier to barrier.
  double global_mib_per_s() const;
  double mpps() const;
  uint64_t wrong_bytes() const { return client.wrong_bytes + server.wrong_bytes; }
  /// Of all ports, a port that both ends use counted once.
  std::optional<uint64_t> retries() const;
};
nlohmann::json to_json(const RowResult& r);
Result<RowResult> row_result_from_json(const nlohmann::json& j);

}  // namespace twohop::verbs_perf
