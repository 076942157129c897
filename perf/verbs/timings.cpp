// See timings.hpp.
#include "timings.hpp"

#include <algorithm>
#include <array>

namespace twohop::verbs_perf {
namespace {

constexpr size_t kMaxMarks = 1 << 16, kPeakParts = 10;

}  // namespace

Timings::Timings(uint64_t message_bytes) : message_bytes_(message_bytes) {
  marks_.reserve(kMaxMarks);  // now, not while the clock runs
  completions_us_.reserve(kMaxMarks);
}

void Timings::finished(uint64_t now_ns, uint64_t posted_ns, uint64_t messages) {
  finished_ += messages;
  last_ns_ = now_ns;
  const double took_us = static_cast<double>(now_ns - posted_ns) * 1e-3;
  if (completions_ == 0) first_us_ = took_us;
  if (++completions_ % stride_ == 0) keep(took_us, {now_ns, finished_});
}

/// A long row keeps every second, fourth ... completion.
void Timings::keep(double completion_us, Mark mark) {
  completions_us_.push_back(completion_us);
  marks_.push_back(mark);
  if (marks_.size() < kMaxMarks) return;
  for (size_t i = 0; i < kMaxMarks / 2; ++i) {
    marks_[i] = marks_[2 * i + 1];
    completions_us_[i] = completions_us_[2 * i + 1];
  }
  marks_.resize(kMaxMarks / 2);
  completions_us_.resize(kMaxMarks / 2);
  stride_ *= 2;
}

/// Of ten equal slices of the time: completions that are seen at once would make shorter ones look infinitely fast.
double Timings::peak() const {
  const double slice_ns = static_cast<double>(last_ns_ - first_post_ns_) / kPeakParts;
  if (slice_ns <= 0) return 0;
  std::array<uint64_t, kPeakParts> messages{};
  uint64_t before = 0;
  for (const Mark& mark : marks_) {
    const auto slice = static_cast<size_t>(static_cast<double>(mark.ns - first_post_ns_) / slice_ns);
    messages[std::min(slice, kPeakParts - 1)] += mark.messages - before;
    before = mark.messages;
  }
  const auto most = static_cast<double>(*std::max_element(messages.begin(), messages.end()));
  return most * static_cast<double>(message_bytes_) / (1 << 20) / (slice_ns * 1e-9);
}

void Timings::fill(EndResult& r) {
  if (completions_ == 0) return;
  r.first_us = first_us_;
  r.completion_us = summarize(completions_us_);
  r.local_s = static_cast<double>(last_ns_ - first_post_ns_) * 1e-9;
  r.peak_mib_per_s = peak();
}

}  // namespace twohop::verbs_perf
