// CallOrder: the calls of a communicator run one after the other, whatever streams they are launched on.
#pragma once

#include "base/result.hpp"

namespace twohop {

/// `Event` is CUDA's, or a test's: create(), record(stream), delay(stream), wait(), end().
///
/// Every launch waits for the event, also where the stream's handle is that of the launch before: cudaStreamPerThread
/// is another stream in each thread, and the handle of a destroyed stream is given out again while its work still runs.
/// Waiting for an event of one's own stream costs nothing.
template <class Event>
class CallOrder {
 public:
  Result<> create() { return event_.create(); }
  template <class Stream>
  Result<> before(Stream stream) {
    return used_ ? event_.delay(stream) : Result<>();
  }
  template <class Stream>
  Result<> after(Stream stream) {
    auto recorded = event_.record(stream);
    if (recorded) used_ = true;
    return recorded;
  }
  void forget() { used_ = false; }
  void end() { event_.end(); }
  Result<> wait() { return used_ ? event_.wait() : Result<>(); }

 private:
  Event event_;
  bool used_ = false;
};

}  // namespace twohop
