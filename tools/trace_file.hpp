// What a file that TWOHOP_TRACE wrote says of one rank: its calls, what its lanes did, and when its puts were on the way.
// Files are untrusted: what does not fit is an error that names the file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace twohop::cli {

/// Microseconds of the host's clock.
struct Span {
  double begin_us = 0, end_us = 0;
};

struct TracedCall {
  Span span;
  uint64_t number = 0, bytes = 0;
};

struct TracedWork {
  Span span;
  enum class Kind : uint8_t { kCopy, kReduce, kWait } kind = Kind::kCopy;
};

struct TracedPut {
  Span span;  // from when it was handed to the network until its source could be overwritten
  int channel = 0;
  uint64_t bytes = 0;
  std::vector<int> rails;
};

struct TraceFile {
  int rank = -1;
  uint64_t left_out = 0;  // events that the file had no room for
  std::vector<TracedCall> calls;
  std::vector<TracedWork> work;
  std::vector<TracedPut> puts;
};

Result<TraceFile> read_trace(const std::string& path);

}  // namespace twohop::cli
