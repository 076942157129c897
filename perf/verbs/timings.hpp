// When were the messages of a row posted and finished? Keeps what the figures need, whatever a row's length.
#pragma once

#include <cstdint>
#include <vector>

#include "result.hpp"

namespace twohop::verbs_perf {

class Timings {
 public:
  explicit Timings(uint64_t message_bytes);
  void posted(uint64_t now_ns) {
    if (first_post_ns_ == 0) first_post_ns_ = now_ns;
  }
  /// A signalled request, posted at `posted_ns`, has finished this and the messages before it.
  void finished(uint64_t now_ns, uint64_t posted_ns, uint64_t messages);

  /// completion_us, first_us, local_s and peak_mib_per_s.
  void fill(EndResult& r);

 private:
  /// A moment when so many messages were known to be finished.
  struct Mark {
    uint64_t ns, messages;
  };
  void keep(double completion_us, Mark mark);
  double peak() const;

  uint64_t message_bytes_;
  uint64_t first_post_ns_ = 0, last_ns_ = 0, finished_ = 0, completions_ = 0, stride_ = 1;
  double first_us_ = 0;
  std::vector<double> completions_us_;
  std::vector<Mark> marks_;
};

}  // namespace twohop::verbs_perf
