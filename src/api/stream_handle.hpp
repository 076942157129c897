// A host stream: a thread that runs the bundles given to it one after the other.
#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

#include "api/bundle.hpp"
#include "api/live_table.hpp"

struct twohopStream {
  twohopStream();
  /// Runs what was given, then ends the thread. Nobody else may use the stream by now.
  ~twohopStream();
  twohopStream(const twohopStream&) = delete;
  twohopStream& operator=(const twohopStream&) = delete;

  /// Takes over the one bundle of `issued`; with issue_mutex() held.
  void push(twohop::Bundles& issued);
  /// Waits for all that was given before; takes the first error since the last time.
  twohop::Result<> synchronize();
  enum class State { kIdle, kRunning, kFailed };
  State state(twohop::Error* first_error) const;

 private:
  void run();
  /// The next bundle, in a list of its own; an empty list at the end.
  twohop::Bundles next();
  void finished(const twohop::Result<>& result);

  mutable std::mutex mutex_;
  std::condition_variable given_, passed_;
  twohop::Bundles queue_;
  uint64_t ngiven_ = 0, npassed_ = 0;
  std::optional<twohop::Error> first_error_;
  bool ending_ = false;
  std::thread thread_;
};

namespace twohop {

using LiveStreams = LiveTable<twohopStream>;

/// The handle if it is live, else an error that names it. NULL is an error here.
Result<twohopStream*> live(twohopStream_t stream);

}  // namespace twohop
