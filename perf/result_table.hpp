// What does the user read? nccl-tests' all_reduce_perf table, column for column, and the comparison of schemes.
#pragma once

#include <string>
#include <vector>

#include "perf_options.hpp"
#include "result_row.hpp"

namespace twohop::perf {

/// Columns beside those of nccl-tests, in each half of the table.
struct ExtraColumns {
  bool per_iteration = false, verbs = false;
};

std::string table_header(ExtraColumns extra);
std::string table_row(const Row& row, int nranks, ExtraColumns extra);
std::string table_footer(uint64_t nwrong, double average_busbw);

/// A number in `width` columns with as many decimals as fit, as nccl-tests prints it.
std::string fit_number(double value, int width);

/// One line per size: each scheme's time against the first scheme's, bytes out of the busiest node, and how much of
/// that is necessary. Every scheme's rows come in the same order; schemes may be
/// mixed.
std::string comparison(const std::vector<Row>& rows, const std::vector<std::string>& schemes, ClusterShape shape);

}  // namespace twohop::perf
