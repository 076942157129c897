// What does a program read? The run's configuration and one array of results.
#pragma once

#include <string>
#include <vector>

#include "perf_options.hpp"
#include "result_row.hpp"

namespace twohop::perf {

/// {"config": {...}, "results": [{scheme, bytes, count, type, redop, in_place, time_us {min, median, p99}, algbw,
/// busbw, nwrong, internode_bytes, puts, doorbells, work_requests, signalled_completions, rail_bytes, retries,
/// reissued_puts}]}. One result per row and placement; times in us, bandwidths in GB/s. From puts on: totals of the
/// timed iterations over all ranks (NetworkCounts); without RDMA rails rail_bytes is empty and the others are 0;
/// retries and reissued_puts are null where they are not known.
std::string json_report(const PerfOptions& options, ClusterShape shape, const std::string& launcher,
                        const std::vector<Row>& rows);

}  // namespace twohop::perf
