// How much of the time from a call's first put to its last is nothing on the way? Per rank, channel and rail.
#pragma once

#include <string>
#include <vector>

#include "trace_file.hpp"

namespace twohop::cli {

/// Sums over the calls that put anything.
struct WireShare {
  double span_us = 0, busy_us = 0;  // from the first put's beginning to the last one's end; with at least one between
  uint64_t puts = 0, bytes = 0;
  double idle_share() const { return span_us > 0 ? 1 - busy_us / span_us : 0; }
};

struct WireRow {
  std::string what;  // "rank 0", "rank 0, channel 1", "rank 0, rail 0", "all ranks"
  WireShare share;
};

/// Rows of each rank, its channels and rails, then of all ranks together where their clocks agree (one host's files).
/// `bytes` > 0: only calls of so many bytes.
std::vector<WireRow> wire_rows(const std::vector<TraceFile>& files, uint64_t bytes);
std::string trace_text(const std::vector<WireRow>& rows);
std::string trace_json(const std::vector<WireRow>& rows);

/// The call that a picture shows: of the calls of the most bytes (or of `bytes`) the last; its number, 0: none.
uint64_t call_to_show(const TraceFile& file, uint64_t bytes);

}  // namespace twohop::cli
