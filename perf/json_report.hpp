// What does a program read? The run's configuration and one array of results.
#pragma once

#include <string>
#include <vector>

#include "perf_options.hpp"
#include "result_row.hpp"

namespace twohop::perf {

/// {"config": {...}, "results": [{scheme, bytes, count, type, redop, in_place, time_us {min, median, p99}, algbw,
/// busbw, nwrong, internode_bytes}]}. One result per row and placement; times in us, bandwidths in GB/s.
std::string json_report(const PerfOptions& options, ClusterShape shape, const std::string& launcher,
                        const std::vector<Row>& rows);

}  // namespace twohop::perf
