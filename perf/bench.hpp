// How long does an all-reduce take under each scheme, and is its result right? The measuring loops.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "pattern.hpp"
#include "place.hpp"
#include "result_row.hpp"
#include "session.hpp"

namespace twohop::perf {

/// Calls made one after the other in each iteration: one of a sweep, or all buckets of a training step.
struct Workload {
  std::vector<size_t> bytes;
  bool is_step = false;
};

class Bench {
 public:
  /// Buffers for calls up to `max_bytes` are made and touched once, here.
  Bench(const Session& session, Place& place, const PerfOptions& options, size_t max_bytes);
  ~Bench();

  /// Rows of all schemes: per scheme one for each call, then one for the step if it is one. All ranks get the same.
  std::vector<Row> measure(const std::string& type, const std::string& op, const Workload& workload);

 private:
  struct Case;     // what is measured now: type, operation, pattern, counts, placement
  struct Samples;  // what one rank has seen of one scheme: per call, times, bytes sent, wrong elements

  void call(const Case& c, size_t scheme, size_t which) const;
  void time_batch(const Case& c, size_t scheme, int iters, Samples& samples) const;
  void check(const Case& c, size_t scheme, Samples& samples);
  std::vector<Samples> run(const Case& c);
  Measurement merge(const std::vector<Samples>& of_ranks, size_t first, size_t last, size_t rounds) const;
  std::vector<Samples> share(const Samples& mine, size_t calls) const;
  std::vector<twohopRedOp_t> make_ops(const TypeInfo& type, Op op) const;
  void append_rows(const Case& c, bool is_step, size_t scheme, const Samples& out_of_place, const Samples& in_place,
                   std::vector<Row>& rows) const;
  void progress(const Case& c, size_t scheme, size_t round) const;

  void fill(const Case& c, unsigned char* buffer, size_t count) const;
  void guard(unsigned char* from, size_t bytes) const;
  uint64_t wrong_elements(const Case& c, size_t count);
  const Session& session_;
  Place& place_;
  const PerfOptions& options_;
  size_t rounds_;
  unsigned char *send_ = nullptr, *recv_ = nullptr;  // where the place is
  std::unique_ptr<unsigned char[]> shadow_;          // a buffer of the place's, as the host sees it
  size_t buffer_bytes_ = 0;
  std::vector<std::vector<void*>> registrations_;  // of each buffer
};

}  // namespace twohop::perf
