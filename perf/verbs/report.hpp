// How are rows shown? perftest's columns as a table, everything as CSV and JSON. Text only.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "result.hpp"

namespace twohop::verbs_perf {

std::string table_header();
std::string table_row(const RowResult& r);

std::string csv(const std::vector<RowResult>& rows);

/// What holds for the whole run.
struct RunInfo {
  std::string library, client_host, server_host, stopped;  // stopped: why rows are missing; empty: none is
  size_t rows_planned = 0;
  bool one_host = false, emulated = false;
};
nlohmann::json json_report(const RunInfo& info, const std::vector<RowResult>& rows);

/// The rows of a file written by this program.
Result<std::vector<RowResult>> rows_from_json(const nlohmann::json& report);

}  // namespace twohop::verbs_perf
