// What can the watcher thread look after? Something with descriptors, which lives until it says that it is finished.
#pragma once

#include <poll.h>

#include <span>
#include <vector>

namespace twohop {

/// Called by the watcher thread only, except for the destructor.
class Watched {
 public:
  virtual ~Watched() = default;
  virtual bool finished() = 0;
  virtual void append_to(std::vector<pollfd>& polled) = 0;
  /// polled: what append_to() appended, after poll. Also called when nothing of it is ready. Must not wait.
  virtual void serve(std::span<const pollfd> polled) = 0;
  /// Served after so many milliseconds at the latest; -1: when something is ready.
  virtual int patience_ms() { return -1; }
};

}  // namespace twohop
