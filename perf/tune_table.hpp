// Measured rows as a table for TWOHOP_TUNER_FILE: the fastest scheme of each size.
#pragma once

#include <string>
#include <vector>

#include "result_row.hpp"

namespace twohop::perf {

/// JSON text. Between two sizes with different winners the border is their geometric mean. Rows of `auto`, of buckets
/// and of whole steps do not count; empty when none is left.
std::string tune_table(const std::vector<Row>& rows);

}  // namespace twohop::perf
