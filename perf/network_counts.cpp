// See network_counts.hpp.
#include "network_counts.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>

namespace twohop::perf {
namespace {

double moved(uint64_t before, uint64_t after) {
  return static_cast<double>(after - before);
}

}  // namespace

void RankCounts::add(const twohopCounters_t& before, const twohopCounters_t& after) {
  puts += moved(before.puts, after.puts);
  doorbells += moved(before.doorbells, after.doorbells);
  work_requests += moved(before.work_requests, after.work_requests);
  signalled_completions += moved(before.signalled_completions, after.signalled_completions);
  rails = static_cast<double>(after.nrails);
  for (size_t i = 0; i < rail_bytes.size(); ++i) rail_bytes[i] += moved(before.rail_bytes[i], after.rail_bytes[i]);
}

void RankRetries::add(const twohopCounters_t& before, const twohopCounters_t& after) {
  rails = static_cast<double>(after.nrails);
  counting_rails = static_cast<double>(after.nretry_rails);
  reissued_puts += moved(before.reissued_puts, after.reissued_puts);
  for (size_t i = 0; i < retries.size(); ++i) {
    // Less than before: somebody has reset the device's counters.
    retries[i] += moved(std::min(before.rail_retries[i], after.rail_retries[i]), after.rail_retries[i]);
    port_high[i] = static_cast<double>(after.rail_port[i] >> 32);
    port_low[i] = static_cast<double>(after.rail_port[i] & 0xffffffff);
  }
}

void NetworkCounts::add(const RankCounts& rank) {
  puts += static_cast<uint64_t>(rank.puts);
  doorbells += static_cast<uint64_t>(rank.doorbells);
  work_requests += static_cast<uint64_t>(rank.work_requests);
  signalled_completions += static_cast<uint64_t>(rank.signalled_completions);
  const auto rails = static_cast<size_t>(rank.rails);
  if (rail_bytes.size() < rails) rail_bytes.resize(rails);
  for (size_t i = 0; i < rails; ++i) rail_bytes[i] += static_cast<uint64_t>(rank.rail_bytes[i]);
}

std::optional<uint64_t> total_retries(std::span<const RankRetries> ranks) {
  std::map<std::pair<double, double>, double> of_port;
  for (const RankRetries& rank : ranks) {
    if (rank.counting_rails < rank.rails) return std::nullopt;
    for (size_t i = 0; i < static_cast<size_t>(rank.rails); ++i) {
      double& retries = of_port[{rank.port_high[i], rank.port_low[i]}];
      retries = std::max(retries, rank.retries[i]);
    }
  }
  double total = 0;
  for (const auto& [port, retries] : of_port) total += retries;
  return static_cast<uint64_t>(total);
}

uint64_t total_reissued(std::span<const RankRetries> ranks) {
  double total = 0;
  for (const RankRetries& rank : ranks) total += rank.reissued_puts;
  return static_cast<uint64_t>(total);
}

twohopCounters_t read_counters(twohopComm_t comm, bool devices) {
  twohopCounters_t counters{};
  counters.size = devices ? sizeof counters : offsetof(twohopCounters_t, nretry_rails);
  if (twohopCommGetCounters(comm, &counters) != twohopSuccess) counters = {};
  return counters;
}

}  // namespace twohop::perf
