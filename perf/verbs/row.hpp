// What is one measurement of verbs_perf, and which ones does a matrix of values ask for? Pure.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace twohop::verbs_perf {

enum class Op { kWrite, kWriteImm, kRead, kSend, kAtomic };
const char* op_name(Op op);
/// Whether messages use up receives at the other end.
constexpr bool needs_receives(Op op) {
  return op == Op::kSend || op == Op::kWriteImm;
}
constexpr uint64_t kAtomicBytes = 8;

struct RowSpec {
  // The factors of the matrix.
  Op op = Op::kWrite;
  uint64_t size = 65536;       // bytes of a message
  int qps = 1;                 // queue pairs on each rail
  std::string rail;            // the client's, as "mlx5_0:1" or, several at once, "mlx5_0:1+mlx5_1:1"
  bool bidirectional = false;  // both ends send
  int batch = 1;               // work requests per doorbell
  int mtu = 0;                 // 0: the smaller of the two ports'
  int gid = -1;                // the client's GID index; -1: chosen
  int inline_bytes = 0;        // messages up to this size travel in their work request

  int repeat = 0;

  // The same in all rows of a run.
  uint64_t iterations = 1000;  // messages per queue pair and sending end
  double duration_s = 0;       // above 0: instead of iterations
  int tx_depth = 128;          // messages of a queue pair posted and unfinished
  int cq_mod = 64;             // at most so many between two that are signalled
  int timeout = 14, retries = 7, service_level = 0, traffic_class = 0;

  // Bounds of this row.
  double max_seconds = 10;
  uint64_t max_bytes = uint64_t{1} << 40;  // of each sending end
  double patience_s = 30;                  // without any progress
  uint64_t seed = 1;                       // of the data
};

/// Whether the row can be measured at all; what the other end sends is checked by it too.
Result<> check(const RowSpec& row);

nlohmann::json to_json(const RowSpec& row);
Result<RowSpec> row_from_json(const nlohmann::json& j);

/// One column of the matrix: its name, the flag that sets it, its value in a row as text.
struct Factor {
  const char* name;
  const char* flag;
  std::string (*value)(const RowSpec&);
};
std::span<const Factor> factors();
/// All factors as text: rows with the same configuration differ only in `repeat`.
std::string configuration(const RowSpec& row);

struct Matrix {
  std::vector<Op> ops{Op::kWrite};
  std::vector<uint64_t> sizes{65536};
  std::vector<int> qps{1};
  std::vector<std::string> rails;
  std::vector<bool> directions{false};
  std::vector<int> batches{1}, mtus{0}, gids{-1}, inlines{0};
  int repeats = 1;
};
/// Every combination once: values that mean nothing to an operation (the size of an atomic, inline data of a READ or of
/// a larger message) do not multiply the rows. Repeats are outermost, so that what disturbs the machine for a while
/// does not hit all repeats of one configuration. `common` gives the rest of each row.
std::vector<RowSpec> expand(const Matrix& m, const RowSpec& common);

}  // namespace twohop::verbs_perf
