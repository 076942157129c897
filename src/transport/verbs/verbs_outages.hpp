// Who in this process has given a rail up? The user is to be warned once of an outage, not once for each communicator
// that meets it. Like the log, for which it is, this belongs to the process.
#pragma once

#include <string>
#include <utility>

namespace twohop::verbs {

/// One endpoint's share in the outage of a rail. Any thread.
class Outage {
 public:
  explicit Outage(std::string rail);
  Outage(Outage&& o) noexcept : rail_(std::move(o.rail_)), first_(o.first_) { o.rail_.clear(); }
  Outage& operator=(Outage&& o) noexcept;
  ~Outage() { end(); }
  /// Nobody else in this process had given the rail up before.
  bool first() const { return first_; }
  /// True if nobody else in this process holds it for dead any more.
  bool end();

 private:
  std::string rail_;  // empty: over
  bool first_ = false;
};

}  // namespace twohop::verbs
