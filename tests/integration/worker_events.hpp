// How a process that a test's script has started and disturbs (rank_worker, fault_worker) tells what it does and sees:
// lines of JSON on stdout, {"event": ..., "rank": ..., "t": CLOCK_MONOTONIC seconds, ...}.
#pragma once

#include <time.h>
#include <unistd.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>

namespace twohop::test {

inline int rank = -1, nranks = 0;

inline double now() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

inline void tell(const char* event, nlohmann::json more = nlohmann::json::object()) {
  more["event"] = event;
  more["rank"] = rank;
  more["t"] = now();
  // Messages of a broken job may hold anything.
  const std::string line = more.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  if (write(STDOUT_FILENO, line.data(), line.size()) < 0) std::_Exit(9);  // the script is gone
}

}  // namespace twohop::test
