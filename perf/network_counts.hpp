// What did the network do for a row? Differences of twohopCommGetCounters, summed over ranks.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "twohop/twohop.h"

namespace twohop::perf {

/// Of one rank, between two moments. Doubles, so that it can be gathered: all are whole numbers below 2^53.
struct RankCounts {
  double puts = 0, doorbells = 0, work_requests = 0, signalled_completions = 0, rails = 0;
  std::array<double, TWOHOP_MAX_RAILS> rail_bytes{};

  void add(const twohopCounters_t& before, const twohopCounters_t& after);
};

/// What the devices of one rank's rails have counted between two moments, and what is not counted between the calls of
/// a step either.
struct RankRetries {
  double rails = 0, counting_rails = 0, reissued_puts = 0;
  std::array<double, TWOHOP_MAX_RAILS> retries{}, port_high{}, port_low{};  // a port's 64 bits in two halves

  void add(const twohopCounters_t& before, const twohopCounters_t& after);
};

/// Over all ranks.
struct NetworkCounts {
  uint64_t puts = 0, doorbells = 0, work_requests = 0, signalled_completions = 0;
  std::vector<uint64_t> rail_bytes;  // rail i of every rank; empty: no RDMA rail
  // Empty: not known.
  std::optional<uint64_t> retries, reissued_puts;

  void add(const RankCounts& rank);
};

/// Ranks that share a port see the same counter, so each port counts once. nullopt when a device does not count them.
std::optional<uint64_t> total_retries(std::span<const RankRetries> ranks);

uint64_t total_reissued(std::span<const RankRetries> ranks);

/// All counters, or (`devices` false) those that cost next to nothing. Zeros where `comm` gives none.
twohopCounters_t read_counters(twohopComm_t comm, bool devices);

}  // namespace twohop::perf
