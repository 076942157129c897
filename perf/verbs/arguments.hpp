// What does verbs_perf's command line ask for? perftest's flags where it has them; lists make a matrix.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "row.hpp"

namespace twohop::verbs_perf {

struct Arguments {
  Matrix matrix;   // rails as given
  RowSpec common;  // what is the same in all rows
  std::vector<std::string> devices;
  std::string host;  // of the server; empty: this is the server
  std::string listen = "0.0.0.0";
  int port = 18515;
  bool loopback = false, softnic = false;
  double max_seconds = 120, wait_s = 300;
  uint64_t max_bytes = uint64_t{16} << 30;
  double stable_percent = 0;  // 0: all repeats are made
  std::string json_file, csv_file, baseline_to, baseline_from;
  double tolerance_percent = 10;
};

/// --help (exit_code 0, text for stdout) or a bad argument (2, text for stderr).
struct Stop {
  int exit_code = 0;
  std::string text;
};

std::variant<Arguments, Stop> parse_arguments(int argc, const char* const* argv);

}  // namespace twohop::verbs_perf
